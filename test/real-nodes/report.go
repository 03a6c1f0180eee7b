// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/traffic"
)

// pageText is the text of docs/real-nodes.md.
const pageText = `# What was seen on real nodes

<!-- Written by "make real-nodes". Do not edit. -->

Three kubelets with containerd, runc and kube-proxy run in network namespaces of one machine, with a real control plane. csccm is
installed as users install it, and the Pods answer HTTP. The data path of ` + "`cloudstack-sim`" + ` replaces the virtual router.
Clients have addresses outside of the cluster: each request goes through the load balancer's public address, a node's port and
kube-proxy to a Pod. Each chapter has its own cluster. Two chapters run at the same time, so the durations are longer than on an
idle machine.

- Kubernetes {{.Release}}: {{.Count}} scenarios, {{.Failed}} failed, {{.Requests}} requests of steady traffic, {{.Took}} in sum.

What is replaced: the controllers of Apache and Leaseweb are csccm's own program with their names, flags and rule names. The VMs
are network namespaces. Traefik and ingress-nginx are a small program that reads their arguments, also in the examples of Gateway
API; each night Traefik itself runs its examples. How it works: [test/README.md](../test/README.md#real-nodes).

## No request lost

Clients open 200 new connections per second. Each must get its answer within 5 s. With two Services, a connection to
each of them also stays open. The longest gap is the longest time without an answer from one Service.
On a machine without spare CPU late answers also count as lost: before you look for another cause, run the scenario again with
` + "`--only`" + `.

| requests | requests / failures / longest gap |
|---|---|
{{range .Results}}{{$r := .}}{{range .Traffic -}}
| {{$r.Scenario}}{{with .Name}}: {{.}}{{end}} | {{traffic .}} |
{{end}}{{end}}
Only in these parts may requests be lost:

- {{.PowerFailure}}: requests under way through the node when it loses power, drained or not.
- {{.NotReady}}: kube-proxy on the other nodes still sends some requests to the Pods of the lost node.
- {{.Tracked}} (two minutes at most): if the load balancer uses a source port
  again in this time, the connection goes to the same lost Pod.

Neither CloudStack nor a cloud controller manager can prevent this. The load balancer's own health check removes a lost node, and
a Service with ` + "`externalTrafficPolicy: Local`" + ` loses only the requests under way.
{{$chapter := ""}}{{range .Results}}{{if ne .Chapter $chapter}}{{$chapter = .Chapter}}
## {{.Chapter}}

| scenario | result | took | seen |
|---|---|---|---|
{{end}}| {{.Scenario}} | {{if .Fail}}**failed**{{else}}ok{{end}} | {{round .Took}} | {{.Note}} |
{{end}}
## Afterwards

{{with .Left}}New on the machine, of the run or of somebody else: {{.}}.
{{else}}Nothing is left on the machine: mounts, links, nftables, network namespaces, cgroups and folders are as before,
and no process of the run is left.
{{end}}`

// page returns the text of docs/real-nodes.md for results. left is what a run has left on the machine.
func page(minor plane.Minor, all []result, left []string) string {
	failed, requests, took := 0, 0, time.Duration(0)
	for _, w := range all {
		r := &w
		took += r.Took
		if r.Fail != "" {
			failed++
		}
		for _, t := range r.Traffic {
			requests += t.Requests
		}
		r.Note = strings.ReplaceAll(cmp.Or(firstLine(r.Fail), r.Note), "|", "\\|")
	}

	round := func(d time.Duration) time.Duration { return d.Round(time.Second) }
	var b strings.Builder
	funcs := template.FuncMap{"traffic": trafficCell, "round": round}
	must.OK(template.Must(template.New("").Funcs(funcs).Parse(pageText)).Execute(&b, map[string]any{
		"Release":      minor.Release(),
		"Results":      all,
		"Count":        len(all),
		"Failed":       failed,
		"Requests":     requests,
		"Took":         round(took),
		"PowerFailure": partPowerFailure,
		"NotReady":     partNotReady,
		"Tracked":      partTracked,
		"Left":         strings.Join(left, ", "),
	}))

	return b.String()
}

// trafficCell formats a report for a cell of the table.
func trafficCell(r traffic.Report) string {
	text := fmt.Sprintf("%d / %d / %s", r.Requests, r.Failures, r.LongestGap.Round(time.Millisecond))
	if r.Cut > 0 {
		text += fmt.Sprintf(", %d connections cut", r.Cut)
	}
	return text
}

// brief formats a report for a note.
func brief(r traffic.Report) string {
	return fmt.Sprintf("%d requests, %d failures, longest gap %s", r.Requests, r.Failures,
		r.LongestGap.Round(time.Millisecond))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
