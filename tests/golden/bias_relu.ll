define void @map_c11423d3958a_v32(ptr %bases, ptr %arguments, i64 %share, i64 %shares) #0 {
entry:
  %nowhere1 = alloca [2 x i64]
  %p2 = getelementptr i64, ptr %arguments, i64 0
  %index3 = load i64, ptr %p2
  %p4 = getelementptr i64, ptr %arguments, i64 1
  %offset5 = load i64, ptr %p4
  %p6 = getelementptr ptr, ptr %bases, i64 %index3
  %base7 = load ptr, ptr %p6
  %p8 = getelementptr float, ptr %base7, i64 %offset5
  %p9 = getelementptr i64, ptr %arguments, i64 2
  %index10 = load i64, ptr %p9
  %p11 = getelementptr i64, ptr %arguments, i64 3
  %offset12 = load i64, ptr %p11
  %p13 = getelementptr ptr, ptr %bases, i64 %index10
  %base14 = load ptr, ptr %p13
  %p15 = getelementptr float, ptr %base14, i64 %offset12
  %p16 = getelementptr i64, ptr %arguments, i64 4
  %index17 = load i64, ptr %p16
  %p18 = getelementptr i64, ptr %arguments, i64 5
  %offset19 = load i64, ptr %p18
  %p20 = getelementptr ptr, ptr %bases, i64 %index17
  %base21 = load ptr, ptr %p20
  %p22 = getelementptr float, ptr %base21, i64 %offset19
  %p23 = getelementptr i64, ptr %arguments, i64 6
  %size24 = load i64, ptr %p23
  %p25 = getelementptr i64, ptr %arguments, i64 7
  %size26 = load i64, ptr %p25
  %p27 = getelementptr i64, ptr %arguments, i64 8
  %stride28 = load i64, ptr %p27
  %p29 = getelementptr i64, ptr %arguments, i64 9
  %stride30 = load i64, ptr %p29
  %v31 = add i64 %size26, 7
  %v32 = sdiv i64 %v31, 8
  %v33 = icmp sgt i64 %v32, %size24
  %v34 = select i1 %v33, i64 1, i64 0
  %v35 = select i1 %v33, i64 %v32, i64 %size24
  %v36 = add i64 %share, 1
  %v37 = mul i64 %v35, %share
  %v38 = sdiv i64 %v37, %shares
  %v39 = mul i64 %v35, %v36
  %v40 = sdiv i64 %v39, %shares
  %v41 = icmp eq i64 %v34, 0
  %v42 = call i64 @llvm.smin.i64(i64 %v40, i64 %size24)
  %start43 = select i1 %v41, i64 %v38, i64 0
  %stop44 = select i1 %v41, i64 %v42, i64 %size24
  %v45 = icmp eq i64 %v34, 1
  %v46 = mul i64 %v38, 8
  %v47 = mul i64 %v40, 8
  %v48 = call i64 @llvm.smin.i64(i64 %v47, i64 %size26)
  %start49 = select i1 %v45, i64 %v46, i64 0
  %stop50 = select i1 %v45, i64 %v48, i64 %size26
  br label %before51
before51:
  br label %head51
head51:
  %i52 = phi i64 [ %start43, %before51 ], [ %v94, %again51 ]
  %v53 = icmp slt i64 %i52, %stop44
  br i1 %v53, label %body51, label %done51
body51:
  %v60 = mul i64 %i52, %stride28
  %p61 = getelementptr float, ptr %p8, i64 %v60
  %v71 = mul i64 %i52, %stride30
  %p72 = getelementptr float, ptr %p22, i64 %v71
  %v54 = sub i64 %stop50, %start49
  %v55 = and i64 %v54, -8
  %v56 = add i64 %start49, %v55
  br label %before57
before57:
  br label %head57
head57:
  %i58 = phi i64 [ %start49, %before57 ], [ %v74, %again57 ]
  %v59 = icmp slt i64 %i58, %v56
  br i1 %v59, label %body57, label %done57
body57:
  %p62 = getelementptr float, ptr %p61, i64 %i58
  %v63 = load <8 x float>, ptr %p62, align 4
  %p64 = getelementptr float, ptr %p15, i64 %i58
  %v65 = load <8 x float>, ptr %p64, align 4
  %v66 = fadd <8 x float> %v63, %v65
  %v67 = fcmp ogt <8 x float> %v66, splat (float 0x0000000000000000)
  %v68 = fcmp uno <8 x float> %v66, %v66
  %v69 = or <8 x i1> %v67, %v68
  %v70 = select <8 x i1> %v69, <8 x float> %v66, <8 x float> splat (float 0x0000000000000000)
  %p73 = getelementptr float, ptr %p72, i64 %i58
  store <8 x float> %v70, ptr %p73, align 4
  br label %again57
again57:
  %v74 = add nsw i64 %i58, 8
  br label %head57
done57:
  br label %before75
before75:
  br label %head75
head75:
  %i76 = phi i64 [ %v56, %before75 ], [ %v93, %again75 ]
  %v77 = icmp slt i64 %i76, %stop50
  br i1 %v77, label %body75, label %done75
body75:
  %v78 = sub i64 %stop50, %i76
  %v79 = trunc i64 %v78 to i32
  %v80 = insertelement <8 x i32> poison, i32 %v79, i64 0
  %v81 = shufflevector <8 x i32> %v80, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask82 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v81
  %p83 = getelementptr float, ptr %p61, i64 %i76
  %v84 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p83, i32 4, <8 x i1> %mask82, <8 x float> zeroinitializer)
  %p85 = getelementptr float, ptr %p15, i64 %i76
  %v86 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p85, i32 4, <8 x i1> %mask82, <8 x float> zeroinitializer)
  %v87 = fadd <8 x float> %v84, %v86
  %v88 = fcmp ogt <8 x float> %v87, splat (float 0x0000000000000000)
  %v89 = fcmp uno <8 x float> %v87, %v87
  %v90 = or <8 x i1> %v88, %v89
  %v91 = select <8 x i1> %v90, <8 x float> %v87, <8 x float> splat (float 0x0000000000000000)
  %p92 = getelementptr float, ptr %p72, i64 %i76
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v91, ptr %p92, i32 4, <8 x i1> %mask82)
  br label %again75
again75:
  %v93 = add nsw i64 %i76, 8
  br label %head75
done75:
  br label %again51
again51:
  %v94 = add nsw i64 %i52, 1
  br label %head51
done51:
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
