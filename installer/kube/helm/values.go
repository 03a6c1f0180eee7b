// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli/values"
)

// ParseValues parses values as helm's flags do: files (-f) first, then set
// (--set, with type detection), then setString (--set-string); later ones override earlier ones.
func ParseValues(files, set, setString []string) (map[string]any, error) {
	parsed, err := (&values.Options{ValueFiles: files, Values: set, StringValues: setString}).MergeValues(nil)
	if err != nil {
		return nil, fmt.Errorf("chart values: %w", err)
	}
	return parsed, nil
}

// MergeValues returns base with the values of over merged into it, mapping by mapping; neither is changed. A null
// in over is kept, so that it removes a chart's default as with helm.
func MergeValues(base, over map[string]any) map[string]any {
	return chartutil.MergeTables(copyValues(over), copyValues(base))
}
