// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "time"

// Restart is what happens when the management server is killed and started
// again: running jobs end with jobstatus 2, jobresultcode 530 and no
// jobresult, their objects stay half done, sessions and throttling counts are
// gone. VMs on their way up or down are found powered off. For the time away every connection is cut.
func (s *Simulator) Restart(away time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDueLocked()
	now := s.clock.Now()
	for _, j := range s.st.due {
		subject := j.subject
		j.breakOff(now)
		s.st.ended(j, subject)
	}
	s.st.due = nil
	s.st.settleVMs(now)
	s.nextDue.Store(0)
	s.sessions.clear()
	s.throttle.clear()
	if away > 0 {
		s.awayUntil.Store(now.Add(away).UnixNano())
	}
}

// settleVMs is what the server makes of VMs whose start or stop nobody finishes
// any more: Stopped. One that was being deployed keeps its detail deployvm.
func (st *state) settleVMs(now time.Time) {
	for _, v := range st.vms.rows {
		switch {
		case v.removed:
		case v.state == vmStarting:
			v.failStart(vmStopped, now)
		case v.state == vmStopping:
			v.stopped(now)
		}
	}
}

func (s *sessions) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID = map[string]*session{}
}

// away tells whether the server is not back yet.
func (s *Simulator) away() bool {
	until := s.awayUntil.Load()
	return until != 0 && s.clock.Now().UnixNano() < until
}

// breakOff ends a job in the middle: nothing is undone.
func (j *job) breakOff(now time.Time) {
	j.status, j.code, j.completed, j.broken = jobFailed, codeInternal, now, true
	j.run, j.undo, j.subject = nil, nil, nil
}
