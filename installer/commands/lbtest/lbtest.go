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
	"strings"
	"time"

	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/prompt"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/echo"
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
	// Cloud returns an error if CloudStack does not answer. The test then ends at once instead of waiting for an
	// address. It is nil without credentials.
	Cloud func(ctx context.Context) error
	// Ask sends a request to an address from this machine. Tests replace it.
	Ask func(ctx context.Context, address, token string) (echo.Answer, error)

	id     string
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

	what := fmt.Sprintf("make a Service of type LoadBalancer and two Pods (image %s) in namespace %s, and remove them",
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
		if cs, err := access.OfSecret(ctx, c, t.Release); err == nil {
			defer cs.Close()
			t.Cloud = cs.Client.Answers
		}

		return t.Run(ctx)
	}

	plan := e.NewPlan()
	plan.Title, plan.Details = "To do: "+what, &t.result
	return e.Run(ctx, engine.Operation{
		Name:     "test",
		What:     what,
		Question: prompt.Question{Message: "Test load balancers: " + what},
		Plan:     plan,
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
			return "answers", t.Cloud(ctx)
		}); err != nil {
			return err // nothing has been created yet
		}
	}

	const unanswered = "csccm doctor --only LB,CS-005,NODE; a firewall on the nodes or a network policy may keep the " +
		"virtual router from the node port; where LB-001 finds nothing, the router may have lost rules that " +
		"CloudStack lists: restart the network with clean-up, which interrupts its traffic"

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
		{"from inside the cluster", unanswered, t.askInside, false},
		{"from this machine", unanswered, t.askOutside, true},
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
var errSkipped = errors.New("the address is not reached from this machine, which may be as it should")

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
		fix = cmp.Or(report.RemedyOf(err), fix)
		s.Outcome, s.Text, s.Remedy = Failed, t.Cluster.Explain(err).Error(), fix
		t.Progress.Fail("%s", s.Text)
		err = report.CheckFailed(fix, "load balancer test: %s: %s", name, s.Text)
	}

	t.result.Steps = append(t.result.Steps, s)
	return err
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
			return "", fmt.Errorf("%w: %w", errSkipped, err)
		default:
			return "", err
		}
	}

	return judge(answers)
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
