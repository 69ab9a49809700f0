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
  %i41 = phi i64 [ %start38, %before40 ], [ %v181, %again40 ]
  %v42 = icmp slt i64 %i41, %stop39
  br i1 %v42, label %body40, label %done40
body40:
  %v64 = mul i64 %i41, %stride28
  %p65 = getelementptr float, ptr %p8, i64 %v64
  %v149 = mul i64 %i41, %stride30
  %p150 = getelementptr float, ptr %p15, i64 %v149
  %p180 = getelementptr float, ptr %p22, i64 %i41
  %v43 = sub i64 %size26, 0
  %v44 = and i64 %v43, -32
  br label %before45
before45:
  br label %head45
head45:
  %i46 = phi i64 [ 0, %before45 ], [ %v83, %again45 ]
  %carried47 = phi <8 x float> [ splat (float 0x0000000000000000), %before45 ], [ %v79, %again45 ]
  %carried48 = phi <8 x float> [ splat (float 0x0000000000000000), %before45 ], [ %v80, %again45 ]
  %carried49 = phi <8 x float> [ splat (float 0x0000000000000000), %before45 ], [ %v81, %again45 ]
  %carried50 = phi <8 x float> [ splat (float 0x0000000000000000), %before45 ], [ %v82, %again45 ]
  %v51 = icmp slt i64 %i46, %v44
  br i1 %v51, label %body45, label %done45
body45:
  %v52 = add i64 %i46, 2048
  %v53 = call i64 @llvm.smin.i64(i64 %v52, i64 %v44)
  br label %before54
before54:
  br label %head54
head54:
  %i55 = phi i64 [ %i46, %before54 ], [ %v78, %again54 ]
  %carried56 = phi <8 x float> [ splat (float 0x0000000000000000), %before54 ], [ %v68, %again54 ]
  %carried57 = phi <8 x float> [ splat (float 0x0000000000000000), %before54 ], [ %v71, %again54 ]
  %carried58 = phi <8 x float> [ splat (float 0x0000000000000000), %before54 ], [ %v74, %again54 ]
  %carried59 = phi <8 x float> [ splat (float 0x0000000000000000), %before54 ], [ %v77, %again54 ]
  %v60 = icmp slt i64 %i55, %v53
  br i1 %v60, label %body54, label %done54
body54:
  %v61 = add i64 %i55, 8
  %v62 = add i64 %i55, 16
  %v63 = add i64 %i55, 24
  %p66 = getelementptr float, ptr %p65, i64 %i55
  %v67 = load <8 x float>, ptr %p66, align 4
  %v68 = fadd <8 x float> %carried56, %v67
  %p69 = getelementptr float, ptr %p65, i64 %v61
  %v70 = load <8 x float>, ptr %p69, align 4
  %v71 = fadd <8 x float> %carried57, %v70
  %p72 = getelementptr float, ptr %p65, i64 %v62
  %v73 = load <8 x float>, ptr %p72, align 4
  %v74 = fadd <8 x float> %carried58, %v73
  %p75 = getelementptr float, ptr %p65, i64 %v63
  %v76 = load <8 x float>, ptr %p75, align 4
  %v77 = fadd <8 x float> %carried59, %v76
  br label %again54
again54:
  %v78 = add nsw i64 %i55, 32
  br label %head54
done54:
  %v79 = fadd <8 x float> %carried47, %carried56
  %v80 = fadd <8 x float> %carried48, %carried57
  %v81 = fadd <8 x float> %carried49, %carried58
  %v82 = fadd <8 x float> %carried50, %carried59
  br label %again45
again45:
  %v83 = add nsw i64 %i46, 2048
  br label %head45
done45:
  %v84 = sub i64 %size26, %v44
  %v85 = and i64 %v84, -8
  %v86 = add i64 %v44, %v85
  br label %before87
before87:
  br label %head87
head87:
  %i88 = phi i64 [ %v44, %before87 ], [ %v97, %again87 ]
  %carried89 = phi <8 x float> [ %carried47, %before87 ], [ %v96, %again87 ]
  %carried90 = phi <8 x float> [ %carried48, %before87 ], [ %carried90, %again87 ]
  %carried91 = phi <8 x float> [ %carried49, %before87 ], [ %carried91, %again87 ]
  %carried92 = phi <8 x float> [ %carried50, %before87 ], [ %carried92, %again87 ]
  %v93 = icmp slt i64 %i88, %v86
  br i1 %v93, label %body87, label %done87
body87:
  %p94 = getelementptr float, ptr %p65, i64 %i88
  %v95 = load <8 x float>, ptr %p94, align 4
  %v96 = fadd <8 x float> %carried89, %v95
  br label %again87
again87:
  %v97 = add nsw i64 %i88, 8
  br label %head87
done87:
  br label %before98
before98:
  br label %head98
head98:
  %i99 = phi i64 [ %v86, %before98 ], [ %v114, %again98 ]
  %carried100 = phi <8 x float> [ %carried89, %before98 ], [ %v113, %again98 ]
  %carried101 = phi <8 x float> [ %carried90, %before98 ], [ %carried101, %again98 ]
  %carried102 = phi <8 x float> [ %carried91, %before98 ], [ %carried102, %again98 ]
  %carried103 = phi <8 x float> [ %carried92, %before98 ], [ %carried103, %again98 ]
  %v104 = icmp slt i64 %i99, %size26
  br i1 %v104, label %body98, label %done98
body98:
  %v105 = sub i64 %size26, %i99
  %v106 = trunc i64 %v105 to i32
  %v107 = insertelement <8 x i32> poison, i32 %v106, i64 0
  %v108 = shufflevector <8 x i32> %v107, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask109 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v108
  %p110 = getelementptr float, ptr %p65, i64 %i99
  %v111 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p110, i32 4, <8 x i1> %mask109, <8 x float> zeroinitializer)
  %v112 = fadd <8 x float> %carried100, %v111
  %v113 = select <8 x i1> %mask109, <8 x float> %v112, <8 x float> %carried100
  br label %again98
again98:
  %v114 = add nsw i64 %i99, 8
  br label %head98
done98:
  %v115 = fadd <8 x float> %carried100, %carried101
  %v116 = fadd <8 x float> %carried102, %carried103
  %v117 = fadd <8 x float> %v115, %v116
  %v118 = shufflevector <8 x float> %v117, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v119 = shufflevector <8 x float> %v117, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v120 = fadd <4 x float> %v118, %v119
  %v121 = shufflevector <4 x float> %v120, <4 x float> poison, <2 x i32> <i32 0, i32 1>
  %v122 = shufflevector <4 x float> %v120, <4 x float> poison, <2 x i32> <i32 2, i32 3>
  %v123 = fadd <2 x float> %v121, %v122
  %v124 = extractelement <2 x float> %v123, i64 0
  %v125 = extractelement <2 x float> %v123, i64 1
  %v126 = fadd float %v124, %v125
  %v137 = insertelement <8 x float> poison, float %v126, i64 0
  %v138 = shufflevector <8 x float> %v137, <8 x float> poison, <8 x i32> zeroinitializer
  %v127 = sub i64 %size26, 0
  %v128 = and i64 %v127, -32
  br label %before129
before129:
  br label %head129
head129:
  %i130 = phi i64 [ 0, %before129 ], [ %v155, %again129 ]
  %v131 = icmp slt i64 %i130, %v128
  br i1 %v131, label %body129, label %done129
body129:
  %v132 = add i64 %i130, 8
  %v133 = add i64 %i130, 16
  %v134 = add i64 %i130, 24
  %p135 = getelementptr float, ptr %p65, i64 %i130
  %v136 = load <8 x float>, ptr %p135, align 4
  %v139 = fsub <8 x float> %v136, %v138
  %p140 = getelementptr float, ptr %p65, i64 %v132
  %v141 = load <8 x float>, ptr %p140, align 4
  %v142 = fsub <8 x float> %v141, %v138
  %p143 = getelementptr float, ptr %p65, i64 %v133
  %v144 = load <8 x float>, ptr %p143, align 4
  %v145 = fsub <8 x float> %v144, %v138
  %p146 = getelementptr float, ptr %p65, i64 %v134
  %v147 = load <8 x float>, ptr %p146, align 4
  %v148 = fsub <8 x float> %v147, %v138
  %p151 = getelementptr float, ptr %p150, i64 %i130
  store <8 x float> %v139, ptr %p151, align 4
  %p152 = getelementptr float, ptr %p150, i64 %v132
  store <8 x float> %v142, ptr %p152, align 4
  %p153 = getelementptr float, ptr %p150, i64 %v133
  store <8 x float> %v145, ptr %p153, align 4
  %p154 = getelementptr float, ptr %p150, i64 %v134
  store <8 x float> %v148, ptr %p154, align 4
  br label %again129
again129:
  %v155 = add nsw i64 %i130, 32
  br label %head129
done129:
  %v156 = sub i64 %size26, %v128
  %v157 = and i64 %v156, -8
  %v158 = add i64 %v128, %v157
  br label %before159
before159:
  br label %head159
head159:
  %i160 = phi i64 [ %v128, %before159 ], [ %v166, %again159 ]
  %v161 = icmp slt i64 %i160, %v158
  br i1 %v161, label %body159, label %done159
body159:
  %p162 = getelementptr float, ptr %p65, i64 %i160
  %v163 = load <8 x float>, ptr %p162, align 4
  %v164 = fsub <8 x float> %v163, %v138
  %p165 = getelementptr float, ptr %p150, i64 %i160
  store <8 x float> %v164, ptr %p165, align 4
  br label %again159
again159:
  %v166 = add nsw i64 %i160, 8
  br label %head159
done159:
  br label %before167
before167:
  br label %head167
head167:
  %i168 = phi i64 [ %v158, %before167 ], [ %v179, %again167 ]
  %v169 = icmp slt i64 %i168, %size26
  br i1 %v169, label %body167, label %done167
body167:
  %v170 = sub i64 %size26, %i168
  %v171 = trunc i64 %v170 to i32
  %v172 = insertelement <8 x i32> poison, i32 %v171, i64 0
  %v173 = shufflevector <8 x i32> %v172, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask174 = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v173
  %p175 = getelementptr float, ptr %p65, i64 %i168
  %v176 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %p175, i32 4, <8 x i1> %mask174, <8 x float> zeroinitializer)
  %v177 = fsub <8 x float> %v176, %v138
  %p178 = getelementptr float, ptr %p150, i64 %i168
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v177, ptr %p178, i32 4, <8 x i1> %mask174)
  br label %again167
again167:
  %v179 = add nsw i64 %i168, 8
  br label %head167
done167:
  store float %v126, ptr %p180, align 4
  br label %again40
again40:
  %v181 = add nsw i64 %i41, 1
  br label %head40
done40:
  ret void
}

attributes #0 = { nounwind "prefer-vector-width"="256" }
