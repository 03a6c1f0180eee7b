// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rights"
	"github.com/csccm/csccm/test/internal/must"
)

// audited is what the controller and csccm did in all tests, according to the audit logs.
type audited struct {
	mu     sync.Mutex
	used   map[rights.Request]int // requests of the controller, without namespaces
	asked  map[asked]int          // requests of csccm's commands
	denied map[string]int
}

// asked is a request of a csccm command to the API server.
type asked struct {
	command string
	request rights.Request
}

var audit = audited{used: map[rights.Request]int{}, asked: map[asked]int{}, denied: map[string]int{}}

// auditEvent has the fields of a line of the audit log that this package uses.
type auditEvent struct {
	Verb         string
	UserAgent    string
	RequestURI   string
	User         struct{ Username string }
	Impersonated *struct{ Groups []string } `json:"impersonatedUser"`
	ObjectRef    *struct{ Resource, Subresource, APIGroup, Namespace, Name string }
	Annotations  map[string]string
	Received     time.Time `json:"requestReceivedTimestamp"`
	Answered     time.Time `json:"stageTimestamp"`
}

func (e *auditEvent) forbidden() bool {
	return e.Annotations["authorization.k8s.io/decision"] == "forbid"
}

func (e *auditEvent) request() rights.Request {
	r := rights.Request{
		Verb:      e.Verb,
		Group:     e.ObjectRef.APIGroup,
		Resource:  e.ObjectRef.Resource,
		Namespace: e.ObjectRef.Namespace,
	}
	if e.ObjectRef.Subresource != "" {
		r.Resource += "/" + e.ObjectRef.Subresource
	}
	return r
}

// groups returns the groups that csccm impersonated.
func (e *auditEvent) groups() []string {
	if e.Impersonated == nil {
		return nil
	}
	return e.Impersonated.Groups
}

// asks describes the caller and the request.
func (e *auditEvent) asks() string {
	return fmt.Sprint(e.User.Username, e.groups(), e.request(), "/", e.ObjectRef.Name)
}

// who returns "controller", "csccm", or "" for all other callers.
func (e *auditEvent) who() string {
	switch {
	case strings.HasPrefix(e.User.Username, "system:serviceaccount:") &&
		strings.HasSuffix(e.User.Username, "cloud-controller-manager"):
		return "controller"
	case strings.HasPrefix(e.UserAgent, "csccm/"):
		return "csccm"
	default:
		return ""
	}
}

// at returns the time at which a request took effect. A deleted right ends before the answer to the deletion; a request
// that needed a right was sent before its own answer.
func (e *auditEvent) at() time.Time {
	if e.Verb == "delete" {
		return e.Received
	}
	return e.Answered
}

// inUserAgent matches the csccm command that sent a request; Helm in a test sends none.
var inUserAgent = regexp.MustCompile(`\(([\w-]+)\)$`)

// read adds the audit log of a test.
func (a *audited) read(lines []string) error {
	var events []auditEvent
	for _, line := range lines {
		var e auditEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		if e.who() != "" && e.ObjectRef != nil {
			events = append(events, e)
		}
	}

	slices.SortStableFunc(events, func(a, b auditEvent) int { return a.at().Compare(b.at()) })

	// The API server learns about a new role with a delay, so a refused request that it allows later does not count.
	allowed := map[string]int{}
	for i := range events {
		if !events[i].forbidden() {
			allowed[events[i].asks()] = i
		}
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	// bindings that csccm has deleted: until the controller's Pod has ended, its requests may be refused
	gone := map[string]bool{}
	for i := range events {
		e := &events[i]
		who, r, forbidden := e.who(), e.request(), e.forbidden()
		if who == "csccm" && !forbidden && strings.HasSuffix(r.Resource, "rolebindings") {
			binding := r.Resource + "/" + r.Namespace + "/" + e.ObjectRef.Name
			switch e.Verb {
			case "delete":
				gone[binding] = true
			case "create", "update", "patch":
				delete(gone, binding)
			}
		}

		command := inUserAgent.FindStringSubmatch(e.UserAgent)
		switch {
		case forbidden && (who == "controller" && len(gone) > 0 || allowed[e.asks()] > i):
			// a refused dry run of a reader: csccm then works without it
		case forbidden && e.Verb == "patch" && slices.Contains(e.groups(), rights.Reader):
		case forbidden:
			a.denied[fmt.Sprintf("%s: %s (%s)", who, r, e.RequestURI)]++
		case who == "controller":
			r.Namespace = ""
			a.used[r]++
		case command != nil:
			if r.Resource == "namespaces" {
				r.Namespace = "" // here the audit log has the namespace's own name
			}
			a.asked[asked{command[1], r}]++
		}
	}

	return nil
}

// granted returns the permissions of the chart's own roles.
func granted() (all []string) {
	request := helm.ApplyRequest{Name: release, Chart: must.Get(helm.Embedded()), KubeVersion: "v1.37.0"}
	manifest := must.Get(helm.Template(context.Background(), metav1.NamespaceSystem, request))
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same fields; other kinds have no rules
		must.OK(yaml.Unmarshal([]byte(document), &role))
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						all = append(all, rights.Request{Verb: verb, Group: group, Resource: resource}.String())
					}
				}
			}
		}
	}
	return all
}

// usage counts by permission and caller.
type usage map[string]map[string]int

func (u usage) add(what, who string, n int) {
	if u[what] == nil {
		u[what] = map[string]int{}
	}
	u[what][who] += n
}

// judge prints who used which permission and, after a run of all tests, returns the unused ones as errors. A file in
// testdata and excused give reasons for unused permissions.
func (u usage) judge(whole bool, granted []string, file string, excused map[string]string) (errs []error) {
	raw, err := os.ReadFile(filepath.Join("testdata", file)) // #nosec G304 -- a file of the test
	if err != nil {
		return []error{err}
	}

	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		what, reason, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || !slices.Contains(granted, what) {
			errs = append(errs, fmt.Errorf("testdata/%s: %q has no reason, or is not granted", file, line))
		}
		excused[what] = reason
	}

	fmt.Printf("what is granted (see also testdata/%s), and how often it was used:\n", file)
	for i, what := range granted {
		if slices.Contains(granted[:i], what) {
			continue
		}
		fmt.Printf("  %s %v  %s\n", what, u[what], excused[what])
		if len(u[what]) == 0 && excused[what] == "" && whole {
			errs = append(errs,
				fmt.Errorf("nothing used %q: take it away, or give the reason in testdata/%s", what, file))
		}
	}

	return errs
}

// judge returns errors for refused calls, for requests of a command that the table of csccm's rights lacks, and, after
// a run of all tests, for permissions of the chart and verbs of the table that nothing used.
func (a *audited) judge(whole bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.used) == 0 && len(a.asked) == 0 && !whole {
		return nil
	}
	var errs []error
	for call, n := range a.denied {
		errs = append(errs, fmt.Errorf("refused %d times: %s", n, call))
	}
	u, permissions := usage{}, granted()
	for r, n := range a.used { // also requests that the predefined roles of Kubernetes allow
		u.add(r.String(), "controller", n)
	}
	errs = append(errs, u.judge(whole, permissions, "unused-permissions.txt", map[string]string{})...)

	table, keys, excused := rights.Table(), []string{}, map[string]string{}
	keyOf := func(r *rights.Right, verb string) string {
		return rights.Request{Verb: verb, Group: r.Group, Resource: r.Resource, Namespace: string(r.Place)}.String()
	}
	for _, it := range table {
		for _, verb := range it.Verbs {
			key := keyOf(&it, verb)
			if it.Sometimes && !slices.Contains(keys, key) {
				excused[key] = it.Why
			}
			keys = append(keys, key)
		}
	}
	u = usage{}
	for x, n := range a.asked {
		found := x.request.String() == "create selfsubjectaccessreviews.authorization.k8s.io" // everybody may do this
		for i := range table {
			if allows(&table[i], x.command, x.request, metav1.NamespaceSystem) {
				found = true
				u.add(keyOf(&table[i], x.request.Verb), x.command, n)
			}
		}
		if !found {
			errs = append(errs,
				fmt.Errorf("csccm %s asked %d times to %s, which the table in installer/kube/rights does not have",
					x.command, n, x.request))
		}
	}
	return errors.Join(append(errs, u.judge(whole, keys, "unused-rights.txt", excused)...)...)
}

// allows reports whether a right permits a request of a command. The command install may also do a takeover.
func allows(r *rights.Right, command string, x rights.Request, release string) bool {
	return r.Group == x.Group && r.Resource == x.Resource && slices.Contains(r.Verbs, x.Verb) &&
		(slices.Contains(r.Commands, command) || command == "install" && slices.Contains(r.Commands, "takeover")) &&
		(slices.Contains([]rights.Place{rights.Everywhere, rights.Elsewhere, rights.Tested}, r.Place) ||
			r.Place.Namespace(release) == x.Namespace)
}
