// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// check collects the findings of one operation.
type check struct {
	*Facts
	findings []Finding
}

func newCheck(f *Facts) *check { return &check{Facts: f, findings: []Finding{}} }

func (c *check) add(s Severity, code, object, what, remedy, reference string) {
	c.findings = append(c.findings, Finding{Code: code, Severity: s, Object: object, What: what, Remedy: remedy, Reference: reference})
}

func (c *check) fail(code, object, remedy, format string, args ...any) {
	c.add(Error, code, object, fmt.Sprintf(format, args...), remedy, references[code])
}

func (c *check) warn(code, object, remedy, format string, args ...any) {
	c.add(Warning, code, object, fmt.Sprintf(format, args...), remedy, references[code])
}

// read reports whether the subjects were read; else it adds a finding that names the rule.
func (c *check) read(code string, subjects ...Subject) bool {
	ok := true
	for _, s := range subjects {
		why, unread := c.Unread[s]
		if !unread {
			continue
		}
		ok = false
		said := func(f Finding) bool { return f.Severity == NotChecked && f.Object == string(s) }
		if !slices.ContainsFunc(c.findings, said) { // once, whatever the number of rules
			c.add(NotChecked, code, string(s), why, "", "")
		}
	}
	return ok
}

const issues = "https://github.com/apache/cloudstack/issues/"

// references are the upstream issues of rules.
var references = map[string]string{
	"certificate-expired":    issues + "9418",
	"certificate-expires":    issues + "9418",
	"certificate-host":       issues + "11579",
	"etcd-scale-down":        issues + "14159",
	"firewall-ssh-missing":   issues + "11779",
	"firewall-without-ports": issues + "11758",
	"leftover":               "https://github.com/kubernetes-sigs/cluster-api-provider-cloudstack/issues/293",
	"limit":                  issues + "12123",
	"mixed-offerings":        issues + "14122",
	"offering-custom":        issues + "11545",
	"offering-missing":       issues + "14148",
	"offering-unused-small":  issues + "13408",
	"offering-upgrade":       issues + "13408",
}

// byID returns the element with an id.
func byID[T any](items []T, id string, of func(*T) string) *T {
	i := slices.IndexFunc(items, func(t T) bool { return of(&t) == id })
	if i < 0 {
		return nil
	}
	return &items[i]
}

func (f *Facts) version(id string) *cloudstack.KubernetesVersion {
	return byID(f.Versions, id, func(v *cloudstack.KubernetesVersion) string { return v.ID })
}

func (f *Facts) offering(id string) *cloudstack.ServiceOffering {
	return byID(f.Offerings, id, func(o *cloudstack.ServiceOffering) string { return o.ID })
}

func (f *Facts) network(id string) *cloudstack.Network {
	return byID(f.Networks, id, func(n *cloudstack.Network) string { return n.ID })
}

// managed reports whether the cluster is CloudManaged and in one of the states; else it adds a finding.
func (c *check) managed(operation string, states ...string) bool {
	k := c.Cluster
	object := "cluster " + k.Name
	if k.Type == cloudstack.ExternalManaged {
		c.fail("cluster-type", object, "change it with the tool that made it", "it is ExternalManaged: CloudStack only lists it and cannot %s it", operation)
		return false
	}
	if !slices.Contains(states, k.State) {
		c.fail("cluster-state", object, stateRemedy(k.State), "it is %s; CloudStack can %s it only while it is %s", k.State, operation, either(states))
		return false
	}
	return true
}

func stateRemedy(state string) string {
	switch state {
	case "Stopped":
		return "start the cluster first"
	case "Alert":
		return "look at the states of its VMs and Nodes; CloudStack makes the cluster Running again by itself when all are there"
	case "Error":
		return "its creation failed: delete the cluster and create it again"
	}
	return "wait until CloudStack has finished; if the state stays, an administrator finds the reason in the log of the management server"
}

// either joins words: "a", "a or b", "a, b or c".
func either(words []string) string {
	out := words[0]
	for i, w := range words[1:] {
		if i == len(words)-2 {
			out += " or " + w
		} else {
			out += ", " + w
		}
	}
	return out
}
