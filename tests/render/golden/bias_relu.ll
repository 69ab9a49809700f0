define void @map_c11423d3958a_v32(ptr %bases, ptr %arguments, i64 %first, i64 %last, i64 %parts) #0 {
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
  %v33 = shl i64 %parts, 1
  %v34 = icmp sgt i64 %v32, %size24
  %v35 = icmp slt i64 %size24, %v33
  %v36 = and i1 %v34, %v35
  %v37 = select i1 %v36, i64 1, i64 0
  %v38 = select i1 %v36, i64 %v32, i64 %size24
  %v39 = mul i64 %v38, %first
  %v40 = sdiv i64 %v39, %parts
  %v41 = mul i64 %v38, %last
  %v42 = sdiv i64 %v41, %parts
  %v43 = icmp eq i64 %v37, 0
  %v44 = call i64 @llvm.smin.i64(i64 %v42, i64 %size24)
  %start45 = select i1 %v43, i64 %v40, i64 0
  %stop46 = select i1 %v43, i64 %v44, i64 %size24
  %v47 = icmp eq i64 %v37, 1
  %v48 = mul i64 %v40, 8
  %v49 = mul i64 %v42, 8
  %v50 = call i64 @llvm.smin.i64(i64 %v49, i64 %size26)
  %start51 = select i1 %v47, i64 %v48, i64 0
  %stop52 = select i1 %v47, i64 %v50, i64 %size26
  br label %before53
before53:
  br label %head53
head53:
  %i54 = phi i64 [ %start45, %before53 ], [ %v96, %again53 ]
  %v55 = icmp slt i64 %i54, %stop46
  br i1 %v55, label %body53, label %done53
body53:
  %v62 = mul i64 %i54, %stride28
  %p63 = getelementptr float, ptr %p8, i64 %v62
  %v73 = mul i64 %i54, %stride30
  %p74 = getelementptr float, ptr %p22, i64 %v73
  %v56 = sub i64 %stop52, %start51
  %v57 = and i64 %v56, -8
  %v58 = add i64 %start51, %v57
  br label %before59
before59:
  br label %head59
head59:
  %i60 = phi i64 [ %start51, %before59 ], [ %v76, %again59 ]
  %v61 = icmp slt i64 %i60, %v58
  br i1 %v61, label %body59, label %done59
body59:
  %p64 = getelementptr float, ptr %p63, i64 %i60
  %v65 = load <8 x float>, ptr %p64, align 4
  %p66 = getelementptr float, ptr %p15, i64 %i60
  %v67 = load <8 x float>, ptr %p66, align 4
  %v68 = fadd <8 x float> %v65, %v67
  %v69 = fcmp ogt <8 x float> %v68, splat (float 0x0000000000000000)
  %v70 = fcmp uno <8 x float> %v68, %v68
  %v71 = or <8 x i1> %v69, %v70
  %v72 = select <8 x i1> %v71, <8 x float> %v68, <8 x float> splat (float 0x0000000000000000)
  %p75 = getelementptr float, ptr %p74, i64 %i60
  store <8 x float> %v72, ptr %p75, align 4
  br label %again59
again59:
  %v76 = add nsw i64 %i60, 8
  br label %head59
done59:
  br label %before77
before77:
  br label %head77
head77:
  %i78 = phi i64 [ %v58, %before77 ], [ %v95, %again77 ]
  %v79 = icmp slt i64 %i78, %stop52
  br i1 %v79, label %body77, label %done77
body77:
  %v80 = sub i64 %stop52, %i78
  %v81 = trunc i64 %v80 to i32
  %v82 = insertelement <8 x i32> poison, i32 %v81, i64 0
  %v83 = shufflevector <8 x i32> %v82, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask84 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v83
  %p85 = getelementptr float, ptr %p63, i64 %i78
  %v86 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p85, i32 4, <8 x i1> %mask84, <8 x float> zeroinitializer)
  %p87 = getelementptr float, ptr %p15, i64 %i78
  %v88 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p87, i32 4, <8 x i1> %mask84, <8 x float> zeroinitializer)
  %v89 = fadd <8 x float> %v86, %v88
  %v90 = fcmp ogt <8 x float> %v89, splat (float 0x0000000000000000)
  %v91 = fcmp uno <8 x float> %v89, %v89
  %v92 = or <8 x i1> %v90, %v91
  %v93 = select <8 x i1> %v92, <8 x float> %v89, <8 x float> splat (float 0x0000000000000000)
  %p94 = getelementptr float, ptr %p74, i64 %i78
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v93, ptr %p94, i32 4, <8 x i1> %mask84)
  br label %again77
again77:
  %v95 = add nsw i64 %i78, 8
  br label %head77
done77:
  br label %again53
again53:
  %v96 = add nsw i64 %i54, 1
  br label %head53
done53:
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
