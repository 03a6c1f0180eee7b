// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/ui/terminal"
)

// Encode writes v to w as "json" or "yaml", with the names of its json tags.
func Encode(w io.Writer, format string, v any) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(v)
	case "yaml":
		body, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		if terminal.Plain(string(body)) != string(body) {
			return Encode(w, "json", v) // YAML too; its escapes are valid in every string
		}
		_, err = w.Write(body)
		return err
	}
	return fmt.Errorf("format %q is none of json, yaml", format)
}
