// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/csccm/csccm/installer/commands/lbtest"
	"github.com/csccm/csccm/installer/commands/lbtest/echo"
)

// lbTestTime bounds the questions; csccm test gives its Pod a little more.
const lbTestTime = time.Minute

// lbTestFlags make the program one of the two Pods of csccm test, in place of a controller. They are hidden: no person
// needs them.
type lbTestFlags struct {
	serve, token string
	ask          []string
}

func (f *lbTestFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.serve, lbtest.ServeFlag, "", "answer csccm test at this address, and do nothing else")
	fs.StringSliceVar(&f.ask, lbtest.AskFlag, nil, "ask the Pod of csccm test at these addresses, and exit")
	fs.StringVar(&f.token, lbtest.TokenFlag, "", "what csccm test is known by")
	for _, name := range []string{lbtest.ServeFlag, lbtest.AskFlag, lbtest.TokenFlag} {
		_ = fs.MarkHidden(name) // it exists
	}
}

func (f *lbTestFlags) asked() bool { return f.serve != "" || len(f.ask) > 0 }

func (f *lbTestFlags) run(out io.Writer, stop <-chan struct{}) error {
	ctx := wait.ContextForChannel(stop)
	if f.serve != "" {
		name, err := os.Hostname()
		if err != nil {
			name = "unknown"
		}
		if pod := os.Getenv(lbtest.PodEnv); pod != "" {
			name = pod
		}
		var l net.ListenConfig
		listener, err := l.Listen(ctx, "tcp", f.serve)
		if err != nil {
			return err
		}
		return echo.Serve(ctx, listener, f.token, name)
	}
	ctx, cancelTime := context.WithTimeout(ctx, lbTestTime)
	defer cancelTime()
	answers, errs := lbtest.AskAll(ctx, f.ask, f.token)
	for _, a := range answers {
		line, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
