// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package iso

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/installer/commands/cks/iso/testenv"
)

func TestWithExternal(t *testing.T) {
	t.Parallel()
	const line = "ExecStart=/opt/bin/kubelet $KUBELET_EXTRA_ARGS"
	for name, c := range map[string]struct{ in, want, err string }{
		"appended":      {"[Service]\nExecStart=\n" + line + "\n", "[Service]\nExecStart=\n" + line + " --cloud-provider=external\n", ""},
		"last one":      {line + "\n[Install]\n" + line, line + "\n[Install]\n" + line + " --cloud-provider=external", ""},
		"blanks":        {line + " \t\r\n", line + " --cloud-provider=external\n", ""},
		"already there": {line + " --cloud-provider=external\n", line + " --cloud-provider=external\n", ""},
		"comment":       {"# " + line + "\n", "", "no ExecStart"},
		"reset only":    {"ExecStart=\n", "", "no ExecStart"},
		"continued":     {"ExecStart=/opt/bin/kubelet \\\n $KUBELET_EXTRA_ARGS\n", "", "several lines"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := withExternal(c.in)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestTolerating(t *testing.T) {
	t.Parallel()
	upstream := testenv.Upstream("v1.33.1", "amd64")
	network, changed, err := tolerating(upstream["network.yaml"])
	require.NoError(t, err)
	require.Equal(t, []string{"Deployment calico-kube-controllers"}, changed)
	require.True(t, strings.HasPrefix(string(network), "# The shape of Calico's manifest"), "documents that need nothing stay as they are")
	dashboard, changed, err := tolerating(upstream["dashboard.yaml"])
	require.NoError(t, err)
	require.Equal(t, []string{"Deployment kubernetes-dashboard", "Deployment dashboard-metrics-scraper"}, changed)
	for _, body := range [][]byte{network, dashboard} {
		again, changed, err := tolerating(body)
		require.NoError(t, err)
		require.Empty(t, changed)
		require.Equal(t, string(body), string(again))
	}

	const pod = "kind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c}], tolerations: [%s]}\n"
	for toleration, tolerates := range map[string]bool{
		"": false, "{key: other, operator: Exists}": false,
		"{operator: Exists}": true, "{operator: Exists, effect: NoSchedule}": true, "{operator: Exists, effect: NoExecute}": false,
		"{key: node.cloudprovider.kubernetes.io/uninitialized, operator: Exists}":                                  true,
		"{key: node.cloudprovider.kubernetes.io/uninitialized, value: 'true', effect: NoSchedule}":                 true,
		"{key: node.cloudprovider.kubernetes.io/uninitialized, value: 'false', effect: NoSchedule}":                false,
		"{key: node.cloudprovider.kubernetes.io/uninitialized, operator: Equal, value: 'true', effect: NoExecute}": false,
	} {
		_, changed, err := tolerating([]byte(strings.Replace(pod, "%s", toleration, 1)))
		require.NoError(t, err)
		require.Equal(t, tolerates, changed == nil, toleration)
	}
	cron, _, err := tolerating([]byte("kind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}}\n"))
	require.NoError(t, err)
	require.Contains(t, string(cron), "uninitialized")
	_, _, err = tolerating([]byte("kind: Pod\n\tspec: x\n"))
	require.Error(t, err)
}
