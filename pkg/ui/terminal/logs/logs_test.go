// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
)

// However something is logged, and whatever it contains, it becomes a single entry that cannot control a terminal.
//
//nolint:paralleltest // klog's logger is the process's
func TestSecurityLogEscapes(t *testing.T) {
	const forged = "E1126 17:00:00.000000       1 x.go:1] \"forged\""
	hostile := "a\n" + forged + "\n\x1b[2J\u009b1m\u202e\r\u2028\xff"
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Cleanup(klog.ClearLogger)
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			logsapi.AddFlags(logsapi.NewLoggingConfiguration(), flags)
			require.NoError(t, flags.Parse([]string{"--logging-format=" + format, "-v=2", "--vmodule=none=3"}))
			var out bytes.Buffer
			Escape(flags, &out)
			klog.InfoS("A value", "name", hostile, "map", map[string]string{hostile: hostile})
			klog.ErrorS(errors.New(hostile), "An error")
			klog.ErrorS(nil, hostile)
			klog.Errorf("failed: %v", hostile)
			klog.Background().WithName("named").WithValues("name", hostile).Info("In a context")
			klog.Background().V(3).Info("not shown")

			assert.NotContains(t, out.String(), "not shown")
			entries := 0
			for line := range strings.Lines(out.String()) {
				line = strings.TrimSuffix(line, "\n")
				assert.Equal(t, -1,
					strings.IndexFunc(line, func(r rune) bool { return r != '\t' && !unicode.IsGraphic(r) }), "%q",
					line)
				assert.False(t, strings.HasPrefix(line, forged), line)
				if format == "json" {
					assert.True(t, json.Valid([]byte(line)), line)
				}
				if !strings.HasPrefix(line, "\t") {
					entries++
				}
			}
			assert.Equal(t, 5, entries, out.String())
		})
	}
}
