// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check has the checks that csccm doctor, install and status share. Each check is a literal with its code,
// severity, sources and texts, followed by the pure function that decides. Package inspect reads the facts and runs the
// checks.
package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/typo"
	"github.com/csccm/csccm/pkg/version"
)

// Severity is how serious it is if a check does not pass.
type Severity string

// Severities, from the worst.
const (
	SeverityFatal   Severity = "fatal" // nothing else can be checked or done
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Phase is the situation to which a check applies.
type Phase string

// Phases.
const (
	PhasePreflight Phase = "preflight" // before the controller is installed
	PhaseInstalled Phase = "installed"
)

// Check is one check. Everything about it is in one literal, above the function that decides.
type Check struct {
	// Code names the check; it never changes.
	Code     string
	Title    string
	Severity Severity // "" for SeverityError
	Phase    Phase    // "" for both
	// Needs are the codes of earlier checks that must pass before this one can run. complete adds those that follow
	// from Reads.
	Needs []string
	// Reads are facts without which the outcome is unknown; Tries are used if they can be read.
	Reads, Tries Sources
	// Judge returns the finding, based only on the facts in Reads and Tries.
	Judge func(*Facts) Finding
	// What, Why and Remedy are the documentation of the check. Remedy is also shown with a result. Its placeholders
	// NAMESPACE, RELEASE, NODES, -n NAMESPACE NAME and https://HOST/client/api are then replaced by the names of the
	// run: see fill in inspect.
	What, Why, Remedy string
}

// Sources are the facts that a check reads.
type Sources []Source

// All returns all checks, in the order in which they are shown.
var All = sync.OnceValue(func() []Check {
	all := []Check{
		k8s001, k8s002, k8s003, k8s004, k8s005, k8s006,
		helm001, helm002, helm003, helm004,
		cs001, cs002, cs003, cs004, cs005, cs006, cs007,
		node001, node002, node003, node004, node005, node006, node007, node008, node009,
		ccm001, ccm002, ccm003, ccm004, ccm005, ccm006, ccm007,
		cks001, cks002, cks003, cks004, cks005,
		lb001, lb002, lb003, lb004,
		ten001, ten002, ten003, ten004,
		stor001, stor002,
	}
	for i := range all {
		all[i].complete()
	}
	return all
})

// complete sets the default severity, adds the needs that follow from the sources, and removes line breaks from the
// texts. Sources in Kubernetes need an API server that answers; CloudStack's need the right project and zone.
func (c *Check) complete() {
	c.Severity = cmp.Or(c.Severity, SeverityError)
	for _, need := range []struct {
		code string
		of   Sources
	}{{cs004.Code, OfCloud}, {k8s001.Code, OfKube}} {
		if slices.ContainsFunc(c.Reads, func(s Source) bool { return slices.Contains(need.of, s) }) {
			c.Needs = slices.Insert(c.Needs, 0, need.code)
		}
	}
	for _, text := range []*string{&c.What, &c.Why, &c.Remedy} {
		*text = OneLine(*text)
	}
}

var categories = map[string]string{
	"K8S":  "Kubernetes",
	"HELM": "Helm release",
	"CS":   "CloudStack",
	"NODE": "Nodes",
	"CCM":  "Controller",
	"CKS":  "Controller",
	"LB":   "Load balancers", "TEN": "Tenants", "STOR": "Storage",
}

// Category is the heading under which the check is shown.
func (c *Check) Category() string {
	group, _, _ := strings.Cut(c.Code, "-")
	return cmp.Or(categories[group], group)
}

// Selection selects the checks to run, and sets options of the run.
type Selection struct {
	// Phase "" means all phases.
	Phase Phase
	// Only and Skip are codes, in upper or lower case; an empty Only means all. A code may be the part before the dash
	// ("NODE" for all NODE checks).
	Only, Skip []string
	// AllMembers compares all Services with CloudStack, which reads the members of every load balancer rule. If Only
	// names LB-001, all Services are compared, too. Otherwise, if that takes many calls, only Services that are not
	// Ready are compared.
	AllMembers bool
	// Timeout limits reading one source; 0 means 20 s.
	Timeout time.Duration
}

// Validate returns an error for a code that does not exist.
func (s Selection) Validate() error {
	var known []string
	for _, c := range All() {
		group, _, _ := strings.Cut(c.Code, "-")
		known = append(known, group, c.Code)
	}
	for _, code := range slices.Concat(s.Only, s.Skip) {
		if !slices.Contains(known, strings.ToUpper(code)) {
			return fmt.Errorf("check %q is not known, did you mean %s?",
				code, strings.Join(typo.Nearest(code, known, math.MaxInt), " or "))
		}
	}
	return nil
}

// Matches reports whether one of the patterns is a code or its group.
func Matches(patterns []string, code string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		p = strings.ToUpper(p)
		return p == code || strings.HasPrefix(code, p+"-")
	})
}

// Chooses reports whether the selection includes a check, other than as a need of another check.
func (s Selection) Chooses(c *Check) bool {
	inPhase := s.Phase == "" || c.Phase == "" || c.Phase == s.Phase
	return inPhase && (len(s.Only) == 0 || Matches(s.Only, c.Code)) && !Matches(s.Skip, c.Code)
}

// Plan returns the selected checks and those that they need, in the order of the catalogue. A check needs only earlier
// ones. Checks that the user skips are not run even if needed; they count as passed.
func (s Selection) Plan(catalogue []Check) (out []Check) {
	var needed []string
	for _, c := range slices.Backward(catalogue) {
		if s.Chooses(&c) || slices.Contains(needed, c.Code) && !Matches(s.Skip, c.Code) {
			needed = append(needed, c.Needs...)
			out = append(out, c)
		}
	}
	slices.Reverse(out)
	return out
}

// Hint returns the URL of a check's documentation.
func (c *Check) Hint() string { return version.Pages + "docs/checks.md#" + strings.ToLower(c.Code) }
