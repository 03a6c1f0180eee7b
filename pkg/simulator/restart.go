// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "time"

// Restart simulates a management server that is killed and started again. Running jobs end with jobstatus 2,
// jobresultcode 530 and no jobresult, and their objects remain unfinished. Sessions and throttling counts are lost.
// VMs that were starting or stopping become Stopped. For the duration away, the server closes every connection
// without an answer.
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
	s.st.stopInterruptedVMs(now)
	s.nextDue.Store(0)
	s.sessions.clear()
	s.throttle.clear()
	if away > 0 {
		s.awayUntil.Store(now.Add(away).UnixNano())
	}
}

// stopInterruptedVMs sets VMs whose start or stop was interrupted to Stopped, like CloudStack. A VM that was being deployed
// keeps its detail deployvm.
func (st *state) stopInterruptedVMs(now time.Time) {
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

// away reports whether the server is still away after a restart.
func (s *Simulator) away() bool {
	until := s.awayUntil.Load()
	return until != 0 && s.clock.Now().UnixNano() < until
}

// breakOff fails a job that a restart interrupted; nothing is undone.
func (j *job) breakOff(now time.Time) {
	j.status, j.code, j.completed, j.broken = jobFailed, codeInternal, now, true
	j.run, j.undo, j.subject = nil, nil, nil
}
