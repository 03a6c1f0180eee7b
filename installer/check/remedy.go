// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/check/decide"
)

// inDocs are the words of the documentation.
var inDocs = strings.NewReplacer(
	decide.WordNamespace, "NAMESPACE", decide.WordRelease, "RELEASE", decide.WordNodeNames, "NODE", decide.WordWorkload, "-n NAMESPACE KIND/NAME", decide.WordService, "-n NAMESPACE NAME",
	decide.WordAPI, "https://HOST/client/api",
)

// fill replaces the placeholders of a remedy by names of the run.
func (e *Env) fill(remedy string, objects []Object) string {
	remedy = e.Style.Commands(remedy)
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
		decide.WordNamespace, e.Namespace, decide.WordRelease, e.Release, decide.WordNodeNames, strings.Join(nodes, " "), decide.WordWorkload, workload, decide.WordService, service, decide.WordAPI, api,
	).Replace(remedy)
}

// first returns the text of the first object of some kinds.
func first(objects []Object, write func(Object) string, kinds ...string) string {
	i := slices.IndexFunc(objects, func(o Object) bool { return slices.Contains(kinds, o.Kind) })
	if i < 0 {
		return ""
	}
	return write(objects[i])
}
