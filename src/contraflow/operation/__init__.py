"""Operations: the declaration of an op, kinds, gradient rules, promotion, and dispatch."""
