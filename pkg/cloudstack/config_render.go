// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"fmt"
	"io"
	"strings"
)

// Render writes the configuration as a cloud-config with its keys, for a Secret
// and for nothing else. ParseConfig reads it back to the same values; defaults
// are left out.
func (c *Config) Render() []byte {
	var b strings.Builder
	b.WriteString("[Global]\n")
	for i := range configKeys {
		if v := configKeys[i].get(c); v != "" {
			b.WriteString(configKeys[i].name + " = " + quote(v) + "\n")
		}
	}
	return []byte(b.String())
}

// WriteTo writes Render's text.
func (c *Config) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(c.Render())
	if err != nil {
		return int64(n), fmt.Errorf("writing the cloud-config: %w", err)
	}
	return int64(n), nil
}

// quote puts a value into double quotes where bare text would be read otherwise,
// by ParseConfig or by upstream's parser.
func quote(v string) string {
	if v == strings.TrimSpace(v) && !strings.ContainsAny(v, "\"'\\#;\n\r\t`") {
		return v
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", " ", "\t", `\t`).Replace(v) + `"`
}
