// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package logs escapes the controller's log, so that untrusted text can neither control the reader's terminal nor
// forge a log entry. klog quotes most values, but not values of several lines nor what the framework formats itself.
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

// Escape makes klog write to w with each entry escaped. The framework has set up klog before and takes no writer, so
// the loggers are created again from its flags.
func Escape(flags *pflag.FlagSet, w io.Writer) {
	w = entries{w}
	value := func(name string) string { return flags.Lookup(name).Value.String() }
	verbosity, _ := strconv.Atoi(value("v")) // the flag is known to be a number
	if value("logging-format") == logsapi.JSONLogFormat {
		//nolint:gosec // not negative
		logger, _ := json.NewJSONLogger(logsapi.VerbosityLevel(verbosity), json.AddNopSync(w), nil, nil)
		klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
		return
	}
	config := textlogger.NewConfig(textlogger.Verbosity(verbosity), textlogger.Output(w))
	_ = config.VModule().Set(value("vmodule")) // the framework has accepted the value
	klog.SetLoggerWithOptions(textlogger.NewLogger(config), klog.ContextualLogger(true),
		klog.WriteKlogBuffer(func(entry []byte) { _, _ = w.Write(entry) }))
}

// entries writes a log. Each Write is one entry; all its lines but the first are indented.
type entries struct{ io.Writer }

func (e entries) Write(entry []byte) (int, error) {
	text := strings.TrimSuffix(terminal.Plain(string(entry)), "\n")
	_, err := io.WriteString(e.Writer, strings.ReplaceAll(text, "\n", "\n\t")+"\n")
	return len(entry), err
}
