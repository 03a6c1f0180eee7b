// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/tenancy"
)

// tenancyArgument returns the tenancy policy in the controller's arguments.
func tenancyArgument(t *testing.T, v values) tenancy.Policy {
	t.Helper()
	for _, arg := range args(t, v) {
		if text, ok := strings.CutPrefix(arg, "--tenancy="); ok {
			p, err := tenancy.Parse([]byte(text))
			require.NoError(t, err, text)
			return p
		}
	}
	t.Fatal("no --tenancy")
	return tenancy.Policy{}
}

func TestTenancyDefaults(t *testing.T) {
	t.Parallel()
	assert.Equal(t, tenancy.Default(), tenancyArgument(t, nil))
	raw, err := os.ReadFile(filepath.Join(charts.Name, "values.yaml"))
	require.NoError(t, err)
	var all map[string]any
	require.NoError(t, yaml.Unmarshal(raw, &all))
	text, err := json.Marshal(all["tenancy"])
	require.NoError(t, err)
	written, err := tenancy.Parse(text)
	require.NoError(t, err)
	assert.Equal(t, tenancy.Default(), written)
	assert.Nil(t,
		tenancyArgument(t, values{
			"tenancy": values{"limits": values{"keepIP": values{"maxPerNamespace": nil}}},
		}).Limits.KeepIP.MaxPerNamespace)
}

func TestTenancyKnowsTheAnnotations(t *testing.T) {
	t.Parallel()
	rules := values{}
	for _, name := range annotation.UserNames() {
		rules[name] = values{"deny": true}
	}
	render(t, values{"tenancy": values{"annotations": rules}})
	_, err := renderWith(values{"tenancy": values{"annotations": values{"networks": values{"deny": true}}}}, load(t))
	require.ErrorContains(t, err,
		"tenancy.annotations: networks is not known; use one of "+strings.Join(annotation.UserNames(), ", "))
}
