// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Words that stand in remedies for what a run knows. The documentation shows a word in capitals for them.
const (
	wordNamespace = "{namespace}" // of the controller
	wordRelease   = "{release}"   // Helm release
	wordNodes     = "{nodes}"     // of the finding, separated by commas
	wordWorkload  = "{workload}"  // the first Deployment or DaemonSet of the finding: -n NAMESPACE KIND/NAME
	wordService   = "{service}"   // the first Service of the finding: -n NAMESPACE NAME
	wordAPI       = "{api-url}"   // of CloudStack, over TLS
)

// Commands that show what the controller says.
const (
	showLog  = "kubectl -n " + wordNamespace + " logs -l app.kubernetes.io/instance=" + wordRelease + " --tail=-1"
	restart  = "kubectl -n " + wordNamespace + " rollout restart deployment,daemonset -l app.kubernetes.io/instance=" + wordRelease
	showPods = "kubectl -n " + wordNamespace + " describe pods -l app.kubernetes.io/instance=" + wordRelease
)

// inDocs are the words of the documentation.
var inDocs = strings.NewReplacer(
	wordNamespace, "NAMESPACE", wordRelease, "RELEASE", wordNodes, "NODE", wordWorkload, "-n NAMESPACE KIND/NAME", wordService, "-n NAMESPACE NAME",
	wordAPI, "https://HOST/client/api",
)

// ownCommand finds a command line of csccm in a remedy.
var ownCommand = regexp.MustCompile("`csccm ([a-z-]+)([^`]*)`")

// withFlags gives a command line the flags that name the controller: a copy of it then works on the right one.
func (e *Env) withFlags(line string) string {
	m := ownCommand.FindStringSubmatch(line)
	out := "csccm " + m[1]
	if e.Namespace != "" && e.Namespace != metav1.NamespaceSystem {
		out += " -n " + e.Namespace
	}
	if e.Release != "" && e.Release != defaultRelease && m[1] != "migrate-rules" {
		out += " --release " + e.Release
	}
	return "`" + out + m[2] + "`"
}

// defaultRelease is the name of the Helm release where no --release is given.
const defaultRelease = "cloudstack-ccm"

// fill puts the names of a run into a remedy.
func (e *Env) fill(remedy string, objects []Object) string {
	remedy = ownCommand.ReplaceAllStringFunc(remedy, e.withFlags)
	if !strings.Contains(remedy, "{") {
		return remedy
	}
	api := "https://HOST/client/api"
	if e.CloudConfig != nil {
		api = strings.Replace(e.CloudConfig.APIURL, "http://", "https://", 1)
	}
	var nodes []string
	for _, o := range objects {
		if o.Kind == "Node" && !slices.Contains(nodes, o.Name) {
			nodes = append(nodes, o.Name)
		}
	}
	workload := first(objects, func(o Object) string { return "-n " + o.Namespace + " " + strings.ToLower(o.Kind) + "/" + o.Name }, "Deployment", "DaemonSet")
	service := first(objects, func(o Object) string { return "-n " + o.Namespace + " " + o.Name }, "Service")
	return strings.NewReplacer(
		wordNamespace, e.Namespace, wordRelease, e.Release, wordNodes, strings.Join(nodes, ","), wordWorkload, workload, wordService, service, wordAPI, api,
	).Replace(remedy)
}

// first is how the first object of some kinds is written.
func first(objects []Object, write func(Object) string, kinds ...string) string {
	i := slices.IndexFunc(objects, func(o Object) bool { return slices.Contains(kinds, o.Kind) })
	if i < 0 {
		return ""
	}
	return write(objects[i])
}
