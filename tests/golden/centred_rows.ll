define void @row_709d82019277_v32(ptr %bases, ptr %arguments, i64 %first, i64 %last, i64 %parts) #0 {
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
  %v31 = shl i64 %parts, 1
  %v32 = mul i64 %size24, %first
  %v33 = sdiv i64 %v32, %parts
  %v34 = mul i64 %size24, %last
  %v35 = sdiv i64 %v34, %parts
  %v36 = icmp eq i64 0, 0
  %v37 = call i64 @llvm.smin.i64(i64 %v35, i64 %size24)
  %start38 = select i1 %v36, i64 %v33, i64 0
  %stop39 = select i1 %v36, i64 %v37, i64 %size24
  br label %before40
before40:
  br label %head40
head40:
  %i41 = phi i64 [ %start38, %before40 ], [ %v167, %again40 ]
  %v42 = icmp slt i64 %i41, %stop39
  br i1 %v42, label %body40, label %done40
body40:
  %v55 = mul i64 %i41, %stride28
  %p56 = getelementptr float, ptr %p8, i64 %v55
  %v135 = mul i64 %i41, %stride30
  %p136 = getelementptr float, ptr %p15, i64 %v135
  %p166 = getelementptr float, ptr %p22, i64 %i41
  %v43 = sub i64 %size26, 0
  %v44 = and i64 %v43, -32
  br label %before45
before45:
  br label %head45
head45:
  %i46 = phi i64 [ 0, %before45 ], [ %v69, %again45 ]
  %carried47 = phi <8 x float> [ splat (float 0x0000000000000000), %before45 ], [ %v59, %again45 ]
  %carried48 = phi <8 x float> [ splat (float 0x0000000000000000), %before45 ], [ %v62, %again45 ]
  %carried49 = phi <8 x float> [ splat (float 0x0000000000000000), %before45 ], [ %v65, %again45 ]
  %carried50 = phi <8 x float> [ splat (float 0x0000000000000000), %before45 ], [ %v68, %again45 ]
  %v51 = icmp slt i64 %i46, %v44
  br i1 %v51, label %body45, label %done45
body45:
  %v52 = add i64 %i46, 8
  %v53 = add i64 %i46, 16
  %v54 = add i64 %i46, 24
  %p57 = getelementptr float, ptr %p56, i64 %i46
  %v58 = load <8 x float>, ptr %p57, align 4
  %v59 = fadd <8 x float> %carried47, %v58
  %p60 = getelementptr float, ptr %p56, i64 %v52
  %v61 = load <8 x float>, ptr %p60, align 4
  %v62 = fadd <8 x float> %carried48, %v61
  %p63 = getelementptr float, ptr %p56, i64 %v53
  %v64 = load <8 x float>, ptr %p63, align 4
  %v65 = fadd <8 x float> %carried49, %v64
  %p66 = getelementptr float, ptr %p56, i64 %v54
  %v67 = load <8 x float>, ptr %p66, align 4
  %v68 = fadd <8 x float> %carried50, %v67
  br label %again45
again45:
  %v69 = add nsw i64 %i46, 32
  br label %head45
done45:
  %v70 = sub i64 %size26, %v44
  %v71 = and i64 %v70, -8
  %v72 = add i64 %v44, %v71
  br label %before73
before73:
  br label %head73
head73:
  %i74 = phi i64 [ %v44, %before73 ], [ %v83, %again73 ]
  %carried75 = phi <8 x float> [ %carried47, %before73 ], [ %v82, %again73 ]
  %carried76 = phi <8 x float> [ %carried48, %before73 ], [ %carried76, %again73 ]
  %carried77 = phi <8 x float> [ %carried49, %before73 ], [ %carried77, %again73 ]
  %carried78 = phi <8 x float> [ %carried50, %before73 ], [ %carried78, %again73 ]
  %v79 = icmp slt i64 %i74, %v72
  br i1 %v79, label %body73, label %done73
body73:
  %p80 = getelementptr float, ptr %p56, i64 %i74
  %v81 = load <8 x float>, ptr %p80, align 4
  %v82 = fadd <8 x float> %carried75, %v81
  br label %again73
again73:
  %v83 = add nsw i64 %i74, 8
  br label %head73
done73:
  br label %before84
before84:
  br label %head84
head84:
  %i85 = phi i64 [ %v72, %before84 ], [ %v100, %again84 ]
  %carried86 = phi <8 x float> [ %carried75, %before84 ], [ %v99, %again84 ]
  %carried87 = phi <8 x float> [ %carried76, %before84 ], [ %carried87, %again84 ]
  %carried88 = phi <8 x float> [ %carried77, %before84 ], [ %carried88, %again84 ]
  %carried89 = phi <8 x float> [ %carried78, %before84 ], [ %carried89, %again84 ]
  %v90 = icmp slt i64 %i85, %size26
  br i1 %v90, label %body84, label %done84
body84:
  %v91 = sub i64 %size26, %i85
  %v92 = trunc i64 %v91 to i32
  %v93 = insertelement <8 x i32> poison, i32 %v92, i64 0
  %v94 = shufflevector <8 x i32> %v93, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask95 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v94
  %p96 = getelementptr float, ptr %p56, i64 %i85
  %v97 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p96, i32 4, <8 x i1> %mask95, <8 x float> zeroinitializer)
  %v98 = fadd <8 x float> %carried86, %v97
  %v99 = select <8 x i1> %mask95, <8 x float> %v98, <8 x float> %carried86
  br label %again84
again84:
  %v100 = add nsw i64 %i85, 8
  br label %head84
done84:
  %v101 = fadd <8 x float> %carried86, %carried87
  %v102 = fadd <8 x float> %carried88, %carried89
  %v103 = fadd <8 x float> %v101, %v102
  %v104 = shufflevector <8 x float> %v103, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v105 = shufflevector <8 x float> %v103, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v106 = fadd <4 x float> %v104, %v105
  %v107 = shufflevector <4 x float> %v106, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v108 = shufflevector <4 x float> %v106, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v109 = fadd <2 x float> %v107, %v108
  %v110 = extractelement <2 x float> %v109, i64 0
  %v111 = extractelement <2 x float> %v109, i64 1
  %v112 = fadd float %v110, %v111
  %v123 = insertelement <8 x float> poison, float %v112, i64 0
  %v124 = shufflevector <8 x float> %v123, <8 x float> poison, <8 x i32> zeroinitializer
  %v113 = sub i64 %size26, 0
  %v114 = and i64 %v113, -32
  br label %before115
before115:
  br label %head115
head115:
  %i116 = phi i64 [ 0, %before115 ], [ %v141, %again115 ]
  %v117 = icmp slt i64 %i116, %v114
  br i1 %v117, label %body115, label %done115
body115:
  %v118 = add i64 %i116, 8
  %v119 = add i64 %i116, 16
  %v120 = add i64 %i116, 24
  %p121 = getelementptr float, ptr %p56, i64 %i116
  %v122 = load <8 x float>, ptr %p121, align 4
  %v125 = fsub <8 x float> %v122, %v124
  %p126 = getelementptr float, ptr %p56, i64 %v118
  %v127 = load <8 x float>, ptr %p126, align 4
  %v128 = fsub <8 x float> %v127, %v124
  %p129 = getelementptr float, ptr %p56, i64 %v119
  %v130 = load <8 x float>, ptr %p129, align 4
  %v131 = fsub <8 x float> %v130, %v124
  %p132 = getelementptr float, ptr %p56, i64 %v120
  %v133 = load <8 x float>, ptr %p132, align 4
  %v134 = fsub <8 x float> %v133, %v124
  %p137 = getelementptr float, ptr %p136, i64 %i116
  store <8 x float> %v125, ptr %p137, align 4
  %p138 = getelementptr float, ptr %p136, i64 %v118
  store <8 x float> %v128, ptr %p138, align 4
  %p139 = getelementptr float, ptr %p136, i64 %v119
  store <8 x float> %v131, ptr %p139, align 4
  %p140 = getelementptr float, ptr %p136, i64 %v120
  store <8 x float> %v134, ptr %p140, align 4
  br label %again115
again115:
  %v141 = add nsw i64 %i116, 32
  br label %head115
done115:
  %v142 = sub i64 %size26, %v114
  %v143 = and i64 %v142, -8
  %v144 = add i64 %v114, %v143
  br label %before145
before145:
  br label %head145
head145:
  %i146 = phi i64 [ %v114, %before145 ], [ %v152, %again145 ]
  %v147 = icmp slt i64 %i146, %v144
  br i1 %v147, label %body145, label %done145
body145:
  %p148 = getelementptr float, ptr %p56, i64 %i146
  %v149 = load <8 x float>, ptr %p148, align 4
  %v150 = fsub <8 x float> %v149, %v124
  %p151 = getelementptr float, ptr %p136, i64 %i146
  store <8 x float> %v150, ptr %p151, align 4
  br label %again145
again145:
  %v152 = add nsw i64 %i146, 8
  br label %head145
done145:
  br label %before153
before153:
  br label %head153
head153:
  %i154 = phi i64 [ %v144, %before153 ], [ %v165, %again153 ]
  %v155 = icmp slt i64 %i154, %size26
  br i1 %v155, label %body153, label %done153
body153:
  %v156 = sub i64 %size26, %i154
  %v157 = trunc i64 %v156 to i32
  %v158 = insertelement <8 x i32> poison, i32 %v157, i64 0
  %v159 = shufflevector <8 x i32> %v158, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask160 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v159
  %p161 = getelementptr float, ptr %p56, i64 %i154
  %v162 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p161, i32 4, <8 x i1> %mask160, <8 x float> zeroinitializer)
  %v163 = fsub <8 x float> %v162, %v124
  %p164 = getelementptr float, ptr %p136, i64 %i154
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v163, ptr %p164, i32 4, <8 x i1> %mask160)
  br label %again153
again153:
  %v165 = add nsw i64 %i154, 8
  br label %head153
done153:
  store float %v112, ptr %p166, align 4
  br label %again40
again40:
  %v167 = add nsw i64 %i41, 1
  br label %head40
done40:
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
