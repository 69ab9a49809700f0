"""Operations: what an op is, its declaration, its gradient rules and the contexts that apply it."""
