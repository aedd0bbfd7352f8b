/* queue.c - a peer and a path that starts nowhere. */
#include "sim/engine/queue.h"
#include "sim/model/layer.h"
#include "queue.h"
#include "version_made_by_the_build.h"
#include "engine/queue.h"
  #  include "sim/policy/batching/greedy.h"
