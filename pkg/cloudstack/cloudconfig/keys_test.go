// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudconfig

import (
	"flag"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/docs/pages"
)

var updateDocs = flag.Bool("update-docs", false, "write the example of a cloud-config into README.md")

// samples are values that differ from the defaults, for keys that do not take any text.
var samples = map[string]string{
	"api-url":       "https://h/client/api",
	"ssl-no-verify": "true",
	"timeout":       "7s",
	"job-timeout":   "8m0s",
	"rate-limit":    "9.5",
	"rate-burst":    "3",
	"lb-mode":       "direct",
}

// TestKeysCoverConfig: each field of Config has one key, and each key is parsed, rendered, shown or redacted, and
// compared. The test names a key or field for which one of these is missing.
func TestKeysCoverConfig(t *testing.T) { //nolint:tparallel // the subtests gather what the end compares
	t.Parallel()
	fields := []string{"CABundle", "Ignored"} // not set by keys: a flag sets CABundle
	for i := range keys {
		k := &keys[i]
		t.Run(k.name, func(t *testing.T) {
			def, c := Default(), Default()
			want := samples[k.name]
			if want == "" {
				want = "v-" + k.name
			}
			require.NoError(t, c.set(k.name, want), "give the key a row in samples")
			require.NotEmpty(t, k.doc, "say what the value is")

			var changed []string
			for f := range reflect.TypeFor[Config]().NumField() {
				if !reflect.DeepEqual(reflect.ValueOf(c).Field(f).Interface(),
					reflect.ValueOf(def).Field(f).Interface()) {
					changed = append(changed, reflect.TypeFor[Config]().Field(f).Name)
				}
			}
			require.Len(t, changed, 1, "the field that the key sets")
			fields = append(fields, changed...)

			require.Contains(t, string(c.Render()), k.name+" = "+want+"\n")
			shown := want
			if k.secret {
				shown = redacted
			}
			c.APIURL = "https://h/client/api" // a URL that cannot be parsed is not shown
			require.Contains(t, c.String(), fmt.Sprintf("%q:%q", k.name, shown))
			def.APIURL = "https://other/client/api"
			if k.name != "api-url" {
				def.APIURL = c.APIURL
			}
			require.Len(t, def.Differences(&c), 1)
			require.Len(t, def.NeedsRestart(&c), map[bool]int{true: 1}[k.atStart])
		})
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		require.Equal(t, 1, count(fields, f.Name), "rows in keys that set the field %s", f.Name)
	}
}

func count(list []string, name string) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s != name }))
}

func TestReadmeShowsEveryKey(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("```ini\n[Global]\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "%-18s = %-38s ; %s\n", k.name, k.example, k.doc)
	}
	b.WriteString("```\n")
	stale, err := pages.Refresh(filepath.Join("..", "..", "..", "README.md"),
		[]pages.Part{{Name: "cloud-config", Want: b.String()}}, *updateDocs)
	require.NoError(t, err)
	require.Empty(t, stale, "go test ./pkg/cloudstack/cloudconfig -run Readme -update-docs")
}
