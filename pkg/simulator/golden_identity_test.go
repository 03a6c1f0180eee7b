// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "strings"

func init() {
	// Figures of the machine and the process that a management server runs on, and times to the millisecond.
	for _, name := range strings.Fields(`availableprocessors sessions heapmemoryused heapmemorytotal threadsdaemoncount threadsrunnablecount
		threadstotalcount threadswaitingcount systemmemorytotal systemmemoryfree systemmemoryvirtualsize systemtotalcpucycles
		systemloadaverages systemcycleusage cpuload javadistribution javaversion osdistribution kernelversion agents lastagents agentcount agentscount expireAfter`) {
		volatile[name] = true
	}
	preparations["throttle.getApiLimit"] = func(r *replayer) {
		r.h.sim.st.settings.ThrottleMax, r.h.sim.st.settings.ThrottleIntervalSeconds = 20, 30
		r.h.sim.throttle.reset(nil)
	}
	// The lock is not recorded.
	preparations["updateUser.apikeyaccess-enabled"] = func(r *replayer) { r.userState("second257833", stateLocked) }
}
