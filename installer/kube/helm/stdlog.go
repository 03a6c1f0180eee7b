// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"log"
	"strings"
	"sync"
)

// Helm writes some warnings to the standard library's logger, where they would appear in a command's
// output. While an action runs, redirectStdLog sends them to the client's debug log.
var stdLog struct {
	sync.Mutex
	users int
	saved func()
}

type logWriter func(format string, v ...any)

func (w logWriter) Write(p []byte) (int, error) {
	w("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// redirectStdLog redirects the standard logger to sink until the returned function is called. With several concurrent
// calls, the sink of the first one is used.
func redirectStdLog(sink func(format string, v ...any)) (restore func()) {
	stdLog.Lock()
	defer stdLog.Unlock()
	if stdLog.users == 0 {
		writer, flags := log.Writer(), log.Flags()
		stdLog.saved = func() {
			log.SetOutput(writer)
			log.SetFlags(flags)
		}
		log.SetFlags(0)
		log.SetOutput(logWriter(sink))
	}
	stdLog.users++
	var once sync.Once
	return func() {
		once.Do(func() {
			stdLog.Lock()
			defer stdLog.Unlock()
			if stdLog.users--; stdLog.users == 0 {
				stdLog.saved()
			}
		})
	}
}
