// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/kube/rights"
)

// asked is what a command of csccm asked the API server for.
type asked struct {
	command string
	request rights.Request
}

var inUserAgent = regexp.MustCompile(`\(([\w-]+)\)$`)

// command is the one of csccm's that sent a request; "" for the Helm of a test.
func (e *auditEvent) command() string {
	m := inUserAgent.FindStringSubmatch(e.UserAgent)
	if m == nil {
		return ""
	}
	return m[1]
}

// everybodyMay is what no role need grant.
const everybodyMay = "create selfsubjectaccessreviews.authorization.k8s.io"

// judgeCommands holds what csccm's commands asked for against the table of its rights: no request that it does not have, and,
// after a whole run, no verb of a row that nobody used.
func (a *audited) judgeCommands(whole bool) []error {
	var errs []error
	used := map[string]map[string]int{} // by verb of a row, by command
	table := rights.Table()
	for x, n := range a.asked {
		if x.request.String() == everybodyMay {
			continue
		}
		r := x.request
		if r.Resource == "namespaces" {
			r.Namespace = "" // the audit log has its name there
		}
		found := false
		for i := range table {
			if !table[i].Allows(x.command, r, metav1.NamespaceSystem) {
				continue
			}
			found = true
			key := keyOf(&table[i], r.Verb)
			if used[key] == nil {
				used[key] = map[string]int{}
			}
			used[key][x.command] += n
		}
		if !found {
			errs = append(errs, fmt.Errorf("csccm %s asked %d times to %s, which the table in installer/kube/rights does not have", x.command, n, r))
		}
	}
	reasons, err := unused("unused-rights.txt")
	if err != nil {
		return append(errs, err)
	}
	fmt.Println("rights of csccm's commands, and how often they used them:")
	said := map[string]bool{}
	for i := range table {
		for _, verb := range table[i].Verbs {
			key := keyOf(&table[i], verb)
			if said[key] {
				continue
			}
			said[key] = true
			by := used[key]
			var commands []string
			total := 0
			for _, c := range slices.Sorted(maps.Keys(by)) {
				commands, total = append(commands, fmt.Sprintf("%s %d", c, by[c])), total+by[c]
			}
			reason, excepted := reasons[key]
			delete(reasons, key)
			if table[i].When != "" && total == 0 {
				reason, excepted = "if "+table[i].When, true
			}
			fmt.Printf("  %6d  %s  %s%s\n", total, key, strings.Join(commands, ", "), reason)
			if total == 0 && !excepted && whole {
				errs = append(errs, fmt.Errorf("no command of csccm used %q: take it away, or give the reason in testdata/unused-rights.txt", key))
			}
		}
	}
	for key := range reasons {
		errs = append(errs, fmt.Errorf("testdata/unused-rights.txt names %q, which the table does not have", key))
	}
	return errs
}

// keyOf names a verb of a row.
func keyOf(r *rights.Right, verb string) string {
	return rights.Request{Verb: verb, Group: r.Group, Resource: r.Resource, Namespace: string(r.Place)}.String()
}
