// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"log"
	"strings"
	"sync"
)

// Helm writes some warnings with the standard library's logger, which would land between a command's
// output. While an action runs they go where its debug lines go.
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

// redirectStdLog sends the standard logger to log until the returned function is called. The first of
// several users decides where to.
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
