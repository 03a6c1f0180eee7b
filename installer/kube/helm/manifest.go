// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"regexp"

	"github.com/csccm/csccm/charts"
)

// ManifestFile is the name of the manifest among the files of a release.
const ManifestFile = charts.Name + ".yaml"

// manifestNamespace is the namespace of the manifest's objects; upstream's manifest uses the same.
const manifestNamespace = "kube-system"

// helmLabel matches the lines of labels that name Helm as the manager and the chart.
var helmLabel = regexp.MustCompile(`(?m)^ +(app\.kubernetes\.io/managed-by: Helm|helm\.sh/chart: .*)\n`)

// Manifest renders a chart with its defaults for kubectl, without Helm's labels and without the chart's tests.
func Manifest(ctx context.Context, c *Chart, kubeVersion string) ([]byte, error) {
	rendered, err := Template(ctx, manifestNamespace, ApplyRequest{Name: c.Name(), Chart: c, KubeVersion: kubeVersion})
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(`# %s %s: the chart rendered with its default values, for users without Helm.
#
#   kubectl -n %s create secret generic cloudstack-secret --from-file=cloud-config
#   kubectl apply -f %s
#
# For other values: csccm template --help
`, c.Name(), c.AppVersion(), manifestNamespace, ManifestFile)
	return append([]byte(head), helmLabel.ReplaceAllString(rendered, "")...), nil
}
