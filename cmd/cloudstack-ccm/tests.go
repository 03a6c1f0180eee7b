// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/csccm/csccm/pkg/echo"
)

// testTime is the time limit of a self-test and of the requests that a Pod of csccm test makes. csccm test waits a
// little longer for that Pod.
const testTime = time.Minute

// lbTest makes the program act as one of the two Pods of csccm test. Its flags are hidden, because only csccm test uses
// them.
type lbTest struct {
	serve, token string
	ask          []string
}

func (t *lbTest) add(fs *pflag.FlagSet) {
	fs.StringVar(&t.serve, echo.ServeFlag, "", "answer csccm test at this address, and do nothing else")
	fs.StringSliceVar(&t.ask, echo.AskFlag, nil, "ask the Pod of csccm test at these addresses, and exit")
	fs.StringVar(&t.token, echo.TokenFlag, "", "the token of csccm test")
	for _, name := range []string{echo.ServeFlag, echo.AskFlag, echo.TokenFlag} {
		_ = fs.MarkHidden(name) // the flag exists
	}
}

func (t *lbTest) run(out io.Writer, stop <-chan struct{}) error {
	ctx := wait.ContextForChannel(stop)
	if t.serve != "" {
		var l net.ListenConfig
		listener, err := l.Listen(ctx, "tcp", t.serve)
		if err != nil {
			return err
		}
		return echo.Serve(ctx, listener, t.token, cmp.Or(os.Getenv("POD_NAME"), "unknown"))
	}

	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()

	var errs error
	for _, address := range t.ask {
		answer, err := echo.Ask(ctx, address, t.token)
		errs = errors.Join(errs, err, json.NewEncoder(out).Encode(answer))
	}
	return errs
}
