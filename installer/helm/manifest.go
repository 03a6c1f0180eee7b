// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"regexp"

	"github.com/csccm/csccm/charts"
)

// ManifestFile is the name that a release gives the manifest.
const ManifestFile = charts.Name + ".yaml"

// manifestNamespace is where the manifest's objects go; it is where upstream's are.
const manifestNamespace = "kube-system"

// helmLabel are lines of labels that say that Helm manages an object, or which chart is it.
var helmLabel = regexp.MustCompile(`(?m)^ +(app\.kubernetes\.io/managed-by: Helm|helm\.sh/chart: .*)\n`)

// Manifest renders a chart with its defaults, for kubectl: without the labels that are Helm's, and without the tests.
func Manifest(ctx context.Context, c *Chart, kubeVersion string) ([]byte, error) {
	rendered, err := Template(ctx, manifestNamespace, ApplyRequest{Name: c.Name(), Chart: c, KubeVersion: kubeVersion})
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(`# %s %s: what the chart renders with its defaults, for those who do not use Helm.
#
#   kubectl -n %s create secret generic cloudstack-secret --from-file=cloud-config
#   kubectl apply -f %s
#
# For other values: csccm template --help
`, c.Name(), c.AppVersion(), manifestNamespace, ManifestFile)
	return append([]byte(head), helmLabel.ReplaceAllString(rendered, "")...), nil
}
