// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// maxValuesFile is the maximum size of a values file, in bytes.
const maxValuesFile = 4 << 20

// ParseValues parses values as helm's flags do: files (-f) first, then set
// (--set, with type detection), then setString (--set-string); later ones override earlier ones.
func ParseValues(files, set, setString []string) (map[string]any, error) {
	values := map[string]any{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("values file: %w", err)
		}
		if len(data) > maxValuesFile {
			return nil, fmt.Errorf("values file %s is larger than %d bytes", file, maxValuesFile)
		}
		var more map[string]any
		if err := yaml.Unmarshal(data, &more); err != nil {
			return nil, fmt.Errorf("values file %s is not a YAML mapping: %w", file, err)
		}
		values = MergeValues(values, more)
	}
	for _, s := range set {
		if err := parseSet(s, values); err != nil {
			return nil, fmt.Errorf("--set %s: %w; want name=value, with \\, for a comma and \\. for a dot in a name", s, err)
		}
	}
	for _, s := range setString {
		if err := parseSetString(s, values); err != nil {
			return nil, fmt.Errorf("--set-string %s: %w; want name=value", s, err)
		}
	}
	return values, nil
}

// MergeValues returns base with the values of over merged into it, mapping by mapping; neither is changed. A null
// in over is kept, so that it removes a chart's default as with helm.
func MergeValues(base, over map[string]any) map[string]any {
	out := copyValues(base)
	for key, value := range over {
		below, ok1 := out[key].(map[string]any)
		above, ok2 := value.(map[string]any)
		if ok1 && ok2 {
			out[key] = MergeValues(below, above)
			continue
		}
		out[key] = copyValue(value)
	}
	return out
}
