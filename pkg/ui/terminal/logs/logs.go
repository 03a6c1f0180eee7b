// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logs keeps text from outside from controlling a terminal on which somebody reads the controller's log, and
// from beginning an entry of it. klog quotes most values; it writes those of several lines, and what the framework
// formats itself, as they are.
package logs

import (
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/logs/json"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Escape has klog write to w, each entry escaped. It goes by the flags of the framework, which has set up klog just
// before and takes no writer.
func Escape(flags *pflag.FlagSet, w io.Writer) {
	w = entries{w}
	value := func(name string) string { return flags.Lookup(name).Value.String() }
	verbosity, _ := strconv.Atoi(value("v")) // the flag is a number
	if value("logging-format") == logsapi.JSONLogFormat {
		//nolint:gosec // not negative
		logger, _ := json.NewJSONLogger(logsapi.VerbosityLevel(verbosity), json.AddNopSync(w), nil, nil)
		klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
		return
	}
	config := textlogger.NewConfig(textlogger.Verbosity(verbosity), textlogger.Output(w))
	_ = config.VModule().Set(value("vmodule")) // the framework has taken it
	klog.SetLoggerWithOptions(textlogger.NewLogger(config), klog.ContextualLogger(true),
		klog.WriteKlogBuffer(func(entry []byte) { _, _ = w.Write(entry) }))
}

// entries writes a log. Each Write is one entry; its further lines are indented.
type entries struct{ io.Writer }

func (e entries) Write(entry []byte) (int, error) {
	text := strings.TrimSuffix(terminal.Plain(string(entry)), "\n")
	_, err := io.WriteString(e.Writer, strings.ReplaceAll(text, "\n", "\n\t")+"\n")
	return len(entry), err
}
