// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/jobs"
)

// Restart simulates a management server that is killed and started again. Running jobs end with jobstatus 2,
// jobresultcode 530 and no jobresult, and their objects remain unfinished. Sessions and throttling counts are lost.
// VMs that were starting or stopping become Stopped. For the duration away, the server closes every connection
// without an answer.
func (s *Simulator) Restart(away time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDueLocked()
	now := s.server.Clock.Now()
	for _, j := range s.st.Due {
		subject := j.Subject
		jobs.BreakOff(j, now)
		s.st.Ended(j, subject)
	}
	s.st.Due = nil
	s.st.StopInterruptedVMs(now)
	s.nextDue.Store(0)
	s.server.Sessions.Clear()
	s.server.Throttle.Clear()
	if away > 0 {
		s.awayUntil.Store(now.Add(away).UnixNano())
	}
}

// away reports whether the server is still away after a restart.
func (s *Simulator) away() bool {
	until := s.awayUntil.Load()
	return until != 0 && s.server.Clock.Now().UnixNano() < until
}
