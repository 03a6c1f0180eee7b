// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lbtest tests that Services of type LoadBalancer work. It creates a Service with a small Pod, waits for its
// address, sends requests to the address from inside the cluster and from this machine, with and without the PROXY
// protocol, and deletes what it created.
package lbtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/echo"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Ports of the Service and of the Pod. The virtual router does not use the ports of the Service itself.
const (
	portPlain = 9080
	portProxy = 9081
	portPod   = 8080
)

// Default times.
const (
	DefaultAddressTime = 5 * time.Minute
	podTime            = 2 * time.Minute
	askTime            = time.Minute
	removalTime        = 3 * time.Minute
	interval           = 500 * time.Millisecond
)

// Options of a test.
type Options struct {
	Namespace   string        // existing namespace; "" creates one for the test
	Image       string        // image with the controller's program; "" is the image of the running controller
	AddressTime time.Duration // how long the Service may take to get an address
	NoProxy     bool          // do not test the PROXY protocol
}

// Outcome is how a step ended.
type Outcome string

// Outcomes.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Step is the result of one step.
type Step struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Text    string  `json:"text"`
	Seconds float64 `json:"seconds"`
	Remedy  string  `json:"remedy,omitempty"`
}

// Result is the result of a test; it has the details of the plan.
type Result struct {
	Passed    bool   `json:"passed"`
	Namespace string `json:"namespace"`
	Image     string `json:"image"`
	Address   string `json:"address,omitempty"`
	Steps     []Step `json:"steps"`
}

// Tester runs a test.
type Tester struct {
	*engine.Env
	Options
	// Cloud is CloudStack; nil without credentials. The test ends at once if it does not answer.
	Cloud *access.Cloud
	// Ask sends a request to an address from this machine. Tests replace it.
	Ask func(ctx context.Context, address, token string) (echo.Answer, error)

	id     string
	silent string // the address that does not answer
	result Result
}

// Run asks for confirmation, runs the test and writes the result.
func Run(ctx context.Context, e *engine.Env, o Options) (err error) {
	c := e.Cluster
	if o.Image == "" {
		if o.Image, err = controllerImage(ctx, c.Kube, c.Namespace, e.Release); err != nil {
			return err
		}
	}

	what := fmt.Sprintf(
		"create a Service of type LoadBalancer and two Pods (image %s) in namespace %s, and remove them",
		o.Image, cmp.Or(o.Namespace, prefix+"..."))
	e.PodLogs = c.PodLog
	t := &Tester{
		Env:     e,
		Options: o,
		Ask:     echo.Ask,
		result:  Result{Namespace: o.Namespace, Image: o.Image, Steps: []Step{}},
	}

	test := func(ctx context.Context) error {
		// Without the right to read the Secret the test goes on: the wait for the address shows whether CloudStack
		// answers.
		if t.Cloud, err = access.OfSecret(ctx, c, t.Release); err == nil {
			defer t.Cloud.Close()
		}

		return t.Run(ctx)
	}

	todo := e.NewPlan()
	todo.Title, todo.Details = "To do: "+what, &t.result
	return e.Run(ctx, engine.Operation{
		Name:     "test",
		What:     what,
		Question: prompt.Question{Message: "Test load balancers: " + what},
		Plan:     todo,
		Steps:    []engine.Step{{Name: "load balancer test", Do: test}},
		Done:     func() string { return t.result.text(e.Style) },
	})
}

// Run runs all steps of the test. It deletes what it created even if a step fails.
func (t *Tester) Run(ctx context.Context) (err error) {
	t.id = strings.ToLower(rand.Text()[:8])
	t.result.Namespace = cmp.Or(t.Namespace, prefix+t.id)
	if t.Cloud != nil {
		if err := t.step(ctx, "CloudStack", "run csccm doctor --only CS", func(ctx context.Context) (string, error) {
			return "answers", t.Cloud.Client.Answers(ctx)
		}); err != nil {
			return err // nothing has been created yet
		}
	}

	for _, s := range []struct {
		name, fix string
		do        func(context.Context) (string, error)
		anyway    bool // run also if the step before has failed
	}{
		{"namespace", "", t.makeNamespace, false},
		{
			"Pod",
			"name an image with the controller's program that the nodes can pull with --image, or a namespace whose " +
				"policy lets the Pod run with --namespace",
			t.makePod, false,
		},
		{"address", "csccm doctor says why; csccm plan shows what the controller would do", t.makeService, false},
		{"from inside the cluster", "", t.askInside, false},
		{"from this machine", "", t.askOutside, true},
		{"other Services", "", t.askOthers, false},
	} {
		if err == nil || s.anyway && t.result.Address != "" {
			err = cmp.Or(err, t.step(ctx, s.name, s.fix, s.do))
		}
	}

	// An interrupt (^C) ends the test, but not the removal.
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
	defer cancel()
	rerr := t.step(rctx, "removal", "remove the cause, then delete what is named with kubectl", t.remove)
	if ctx.Err() != nil {
		return cmp.Or(rerr, context.Cause(ctx))
	}

	err = cmp.Or(err, rerr)
	t.result.Passed = err == nil
	return err
}

// errSkipped ends a step whose failure does not mean that load balancers fail.
var errSkipped = errors.New("not tested")

// step runs one step and adds its result. fix is the remedy for errors that have none.
func (t *Tester) step(ctx context.Context, name, fix string, do func(context.Context) (string, error)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	t.Progress.Step("%s", report.Capital(name))
	began := t.Clock.Now()
	text, err := do(ctx)
	s := Step{Name: name, Outcome: OK, Text: text, Seconds: t.Clock.Since(began).Seconds()}
	switch {
	case err == nil:
		t.Progress.Done("%s", text)
	case errors.Is(err, errSkipped):
		s.Outcome, s.Text, err = Skipped, err.Error(), nil
		t.Progress.Done("skipped: %s", s.Text)
	default:
		if fix = cmp.Or(report.RemedyOf(err), fix); fix == "" {
			network := "ID"
			for _, r := range t.rules(ctx) {
				if r.PublicIP == t.silent {
					network = r.NetworkID
				}
			}
			fix = "csccm doctor --only LB,CS-005,NODE; where it finds nothing, no firewall is in between, and " +
				"connections are refused or time out, the virtual router has lost rules that CloudStack lists: " +
				"restart the network with clean-up, which interrupts its traffic: " +
				"`cmk restart network cleanup=true id=" + network + "` (of a VPC: cmk restart vpc); " +
				"where connections are closed without an answer, a firewall on the nodes or a network policy keeps " +
				"the virtual router from the node port"
		}
		s.Outcome, s.Text, s.Remedy = Failed, t.Cluster.Explain(err).Error(), fix
		t.Progress.Fail("%s", s.Text)
		err = report.CheckFailed(fix, "load balancer test: %s: %s", name, s.Text)
	}

	t.result.Steps = append(t.result.Steps, s)
	return err
}

// rules returns the load balancer rules that CloudStack lists; none if they cannot be read.
func (t *Tester) rules(ctx context.Context) []cloudstack.LoadBalancerRule {
	if t.Cloud == nil {
		return nil
	}
	project, _ := t.Cloud.Project(ctx)
	rules, _ := t.Cloud.Client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{ProjectID: project})
	return rules
}

// targets returns the addresses to send requests to; the one without the PROXY protocol is first.
func (t *Tester) targets() []string {
	out := []string{net.JoinHostPort(t.result.Address, fmt.Sprint(portPlain))}
	if !t.NoProxy {
		out = append(out, net.JoinHostPort(t.result.Address, fmt.Sprint(portProxy)))
	}
	return out
}

// judge checks the answers of the targets, in the order of targets, and describes them.
func judge(answers []echo.Answer) (string, error) {
	var texts []string
	for i, a := range answers {
		proxy := i == 1
		switch {
		case a.Error != "":
			return "", fmt.Errorf("no answer at %s within %s, the limit of csccm test: %s", a.Address, askTime, a.Error)
		case proxy != a.Proxied:
			return "", fmt.Errorf("PROXY protocol to Pod %s at %s: want %t, got %t; it came from %s", a.Pod, a.Address,
				proxy, a.Proxied, a.Client)
		case proxy:
			texts = append(texts, fmt.Sprintf("PROXY protocol names the client %s", a.Client))
		default:
			texts = append(texts, fmt.Sprintf("TCP answered by Pod %s, which sees %s", a.Pod, a.Client))
		}
	}
	return strings.Join(texts, "; "), nil
}

// askOutside sends requests from this machine. If the address cannot be reached from here, the step is skipped. It does
// not wait long, because the Pod in the cluster has already waited for the first answer.
func (t *Tester) askOutside(ctx context.Context) (string, error) {
	const patience = 15 * time.Second
	var answers []echo.Answer
	for i, address := range t.targets() {
		limited, cancel := context.WithTimeout(ctx, patience)
		a, err := t.Ask(limited, address, t.id)
		if limited.Err() != nil {
			err = fmt.Errorf("no answer within %s, the limit of csccm test: %w", patience, err)
		}
		cancel()

		var network *net.OpError
		switch {
		case err == nil:
			answers = append(answers, a)
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case i == 0 && errors.As(err, &network) && network.Op == "dial":
			why := "the address cannot be reached from this machine, which may be intended"
			if t.NoProxy { // kube-proxy answers clients inside the cluster itself
				why += "; no request has passed the virtual router"
			}
			return "", fmt.Errorf("%w: %s: %w", errSkipped, why, err)
		default:
			return "", err
		}
	}

	return judge(answers)
}

// askOthers connects to the addresses of the other Services that are open to everybody, without sending anything: the
// virtual router accepts connections for each rule with members. Lists do not show which rules it has lost.
func (t *Tester) askOthers(ctx context.Context) (string, error) {
	if t.Cloud == nil || t.result.Steps[len(t.result.Steps)-1].Outcome != OK {
		return "", fmt.Errorf("%w: this machine does not reach the test's own address, or has no credentials",
			errSkipped)
	}

	for _, r := range t.rules(ctx) {
		limited := len(r.CIDRs) > 0 && !slices.Contains(r.CIDRs, annotation.Anyone)
		if limited || r.Tags[plan.TagManagedBy] != plan.ManagedBy {
			continue
		}

		address := net.JoinHostPort(r.PublicIP, fmt.Sprint(r.PublicPort))
		conn, refused := net.DialTimeout("tcp", address, 3*time.Second) //nolint:noctx // ends soon
		if refused == nil {
			_ = conn.Close() // nothing was sent
			continue
		}
		if members, err := t.Cloud.Client.ListLoadBalancerMembers(ctx, r.ID); err == nil && len(members) > 0 {
			t.silent = r.PublicIP
			// Only the text: the API server has nothing to do with the error.
			return "", errors.New("Service " + r.Tags[plan.TagService] + ": " + refused.Error())
		}
	}

	return "the rules of the other Services accept connections", nil
}

// text returns the result as text.
func (r *Result) text(style report.Style) string {
	var out strings.Builder
	table := report.Table{Header: []string{"STEP", "RESULT", "TIME", "WHAT"}}
	for _, s := range r.Steps {
		table.Add(s.Name, string(s.Outcome), fmt.Sprintf("%.1fs", s.Seconds), s.Text)
	}
	_ = table.Write(&out, style) // a strings.Builder never fails

	if r.Passed {
		fmt.Fprintf(&out, "Load balancers work: address %s was acquired, answered, and is released again.\n", r.Address)
	}
	return out.String()
}
