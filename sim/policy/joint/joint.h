/* joint.h - policies that fill several slots at once; see struct planner_preset. */
#ifndef BALLAST_SIM_POLICY_JOINT_JOINT_H
#define BALLAST_SIM_POLICY_JOINT_JOINT_H

#include "sim/policy/planner.h"

extern const struct planner joint_dip, joint_nnscaler, joint_omnibal, joint_optimus;

#endif
