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
	"slices"
	"strings"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rights"
)

// permission is one thing that a role allows, such as "patch services/status".
type permission struct{ verb, group, resource string }

func (p permission) String() string {
	if p.group != "" {
		return p.verb + " " + p.group + " " + p.resource
	}
	return p.verb + " " + p.resource
}

// audited is what the API servers of all tests recorded that the controller and csccm did.
type audited struct {
	mu     sync.Mutex
	used   map[permission]int // by the controller
	asked  map[asked]int      // by csccm's commands
	denied map[string]int
}

var audit = audited{used: map[permission]int{}, asked: map[asked]int{}, denied: map[string]int{}}

// auditEvent is the part of a line of the audit log that counts here.
type auditEvent struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	URI       string `json:"requestURI"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Impersonated *struct {
		Groups []string `json:"groups"`
	} `json:"impersonatedUser"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Group       string `json:"apiGroup"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
	Received    time.Time         `json:"requestReceivedTimestamp"`
	Answered    time.Time         `json:"stageTimestamp"`
	at          time.Time
}

func (e *auditEvent) forbidden() bool {
	return e.Annotations["authorization.k8s.io/decision"] == "forbid"
}

func (e *auditEvent) resource() string {
	if e.ObjectRef.Subresource != "" {
		return e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
	}
	return e.ObjectRef.Resource
}

func (e *auditEvent) permission() permission {
	return permission{e.Verb, e.ObjectRef.Group, e.resource()}
}

// asks is who asks for what.
func (e *auditEvent) asks() string {
	var groups []string
	if e.Impersonated != nil {
		groups = e.Impersonated.Groups
	}
	return fmt.Sprint(e.User.Username, groups, e.permission(), e.ObjectRef.Namespace, "/", e.ObjectRef.Name)
}

// is tells whether csccm acted as somebody of a group.
func (e *auditEvent) is(group string) bool {
	return e.Impersonated != nil && slices.Contains(e.Impersonated.Groups, group)
}

// who is the controller's account, or csccm; empty for everybody else.
func (e *auditEvent) who() string {
	switch {
	case strings.HasPrefix(e.User.Username, "system:serviceaccount:") && strings.HasSuffix(e.User.Username, "cloud-controller-manager"):
		return "controller"
	case strings.HasPrefix(e.UserAgent, "csccm/"):
		return "csccm"
	default:
		return ""
	}
}

// auditEvents returns the requests of the controller and of csccm in the order in which they took effect: a request that
// withdraws a right does so before its answer, and a request that needs one was sent before its answer.
func auditEvents(lines []string) ([]auditEvent, error) {
	var all []auditEvent
	for _, line := range lines {
		var e auditEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		if e.who() == "" || e.ObjectRef == nil {
			continue
		}
		if e.at = e.Answered; e.Verb == "delete" {
			e.at = e.Received
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b auditEvent) int { return a.at.Compare(b.at) })
	return all, nil
}

// read adds the audit log of a test.
func (a *audited) read(lines []string) error {
	events, err := auditEvents(lines)
	if err != nil {
		return err
	}
	// The API server learns of a role that was just given a moment later: what is allowed afterwards was not refused.
	allowed := map[string]int{}
	for i := range events {
		if !events[i].forbidden() {
			allowed[events[i].asks()] = i
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	gone := map[string]bool{} // bindings that were deleted: a controller whose Pod is ending may still ask
	for i := range events {
		e := &events[i]
		who, p, resource, forbidden := e.who(), e.permission(), e.resource(), e.forbidden()
		if who == "csccm" && !forbidden && strings.HasSuffix(resource, "rolebindings") {
			binding := resource + "/" + e.ObjectRef.Namespace + "/" + e.ObjectRef.Name
			switch e.Verb {
			case "delete":
				gone[binding] = true
			case "create", "update", "patch":
				delete(gone, binding)
			}
		}
		if forbidden && (who == "controller" && len(gone) > 0 || allowed[e.asks()] > i) {
			continue
		}
		if forbidden && e.Verb == "patch" && e.is(rights.Reader) {
			continue // of a dry run, which a reader goes without
		}
		if forbidden {
			a.denied[fmt.Sprintf("%s: %s (%s)", who, p, e.URI)]++
			continue
		}
		if who == "controller" {
			a.used[p]++
		} else if command := e.command(); command != "" {
			a.asked[asked{command, rights.Request{Verb: e.Verb, Group: p.group, Resource: resource, Namespace: e.ObjectRef.Namespace}}]++
		}
	}
	return nil
}

// granted are the permissions of the chart's own roles.
func granted() ([]permission, error) {
	chart, err := helm.Embedded()
	if err != nil {
		return nil, err
	}
	manifest, err := helm.Template(context.Background(), "kube-system", helm.ApplyRequest{Name: release, Chart: chart, KubeVersion: "v1.37.0"})
	if err != nil {
		return nil, err
	}
	var all []permission
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil && !runtime.IsMissingKind(err) {
			return nil, err
		}
		var rules []rbacv1.PolicyRule
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			rules = role.Rules
		case *rbacv1.Role:
			rules = role.Rules
		}
		for i := range rules {
			for _, group := range rules[i].APIGroups {
				for _, resource := range rules[i].Resources {
					for _, verb := range rules[i].Verbs {
						all = append(all, permission{verb, group, resource})
					}
				}
			}
		}
	}
	return all, nil
}

// unused are the permissions that a run may leave unused, by a file in testdata, with the reason why they are there.
func unused(file string) (map[string]string, error) {
	raw, err := os.ReadFile(filepath.Join("testdata", file)) // #nosec G304 -- a file of the test
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p, reason, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("%s: %q has no reason", file, line)
		}
		out[p] = reason
	}
	return out, nil
}

// judge prints who used what, and says what is wrong: a call that was refused, and, after a whole run, a permission that
// nobody used.
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
	all, err := granted()
	if err != nil {
		return err
	}
	reasons, err := unused("unused-permissions.txt")
	if err != nil {
		return err
	}
	fmt.Println("permissions of the chart's roles, and how often the controller used them:")
	for _, p := range all {
		n := a.used[p]
		reason, excepted := reasons[p.String()]
		delete(reasons, p.String())
		fmt.Printf("  %6d  %s  %s\n", n, p, reason)
		if n == 0 && !excepted && whole {
			errs = append(errs, fmt.Errorf("the chart grants %q, which nothing used: take it away, or give the reason in testdata/unused-permissions.txt", p))
		}
	}
	for p := range reasons {
		errs = append(errs, fmt.Errorf("testdata/unused-permissions.txt names %q, which the chart does not grant", p))
	}
	fmt.Println("beyond them, by the roles of Kubernetes that it is bound to:")
	for p, n := range a.used {
		if !slices.Contains(all, p) {
			fmt.Printf("  %6d  %s\n", n, p)
		}
	}
	errs = append(errs, a.judgeCommands(whole)...)
	return errors.Join(errs...)
}
