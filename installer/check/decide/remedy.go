// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

// Words that stand in remedies for what a run knows. The documentation shows a word in capitals for them.
const (
	WordNamespace = "{namespace}" // of the controller
	WordRelease   = "{release}"   // Helm release
	WordNodes     = "{nodes}"     // of the finding, separated by commas
	WordWorkload  = "{workload}"  // the first Deployment or DaemonSet of the finding: -n NAMESPACE KIND/NAME
	WordService   = "{service}"   // the first Service of the finding: -n NAMESPACE NAME
	WordAPI       = "{api-url}"   // of CloudStack, over TLS
)

// Commands that show what the controller says.
const (
	ShowLog  = "kubectl -n " + WordNamespace + " logs -l app.kubernetes.io/instance=" + WordRelease + " --tail=-1"
	Restart  = "kubectl -n " + WordNamespace + " rollout restart deployment,daemonset -l app.kubernetes.io/instance=" + WordRelease
	ShowPods = "kubectl -n " + WordNamespace + " describe pods -l app.kubernetes.io/instance=" + WordRelease
)
