// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

// The commands of scripts whose cluster has nodes.

// join starts nodes: NAME of the example, or NAME=ADDRESS, each with :joined for one that was there before a cloud provider,
// :not-external for one whose kubelet runs without --cloud-provider=external, or :plain for one whose Pods have no sandbox. A kubelet of
// the same name stops.
func (s *scene) join(_ *testscript.TestScript, args []string) error {
	for _, arg := range args {
		name, how, _ := strings.Cut(arg, ":")
		name, address, _ := strings.Cut(name, "=")
		o := processnode.Options{Name: name, Address: address}
		if i := slices.IndexFunc(testenv.ExampleNodes(), func(n processnode.Options) bool { return n.Name == name }); i >= 0 {
			o = testenv.ExampleNodes()[i]
		}
		o.Joined, o.NotExternal, o.Plain = how == "joined", how == "not-external", how == "plain"
		s.stopKubelet(name)
		if _, err := s.whole.nodes.Join(s.t.Context(), o); err != nil {
			return err
		}
	}
	return nil
}

// leave ends the kubelet of a node, whose Node stays, not ready.
func (s *scene) leave(_ *testscript.TestScript, args []string) error {
	s.stopKubelet(args[0])
	s.notReady(s.t, args[0])
	return nil
}

func (s *scene) stopKubelet(name string) {
	for _, n := range s.whole.nodes.Nodes() {
		if n.Name() == name {
			n.Stop() // once more does nothing
		}
	}
}

// credentials writes the controller's Secret from a file.
func (s *scene) credentials(ts *testscript.TestScript, args []string) error {
	s.env.secret(s.t, ts.ReadFile(args[0]))
	return nil
}

// nodesReady waits until so many nodes are.
func (s *scene) nodesReady(_ *testscript.TestScript, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err == nil {
		s.initialised(s.t, n)
	}
	return err
}

// addressOf waits for the address of a Service, and sets a variable to it.
func (s *scene) addressOf(ts *testscript.TestScript, args []string) error {
	ts.Setenv(args[0], s.address(s.t, args[1]))
	return nil
}

// until runs a command until its output has a match of a regular expression, or with "!" has none.
func until(ts *testscript.TestScript, not bool, args []string) {
	s := ts.Value("scene").(*scene)
	commands := map[string]func(*scene, *testscript.TestScript, []string) error{
		"kubectl": (*scene).kubernetes, "cloud": (*scene).call, "rules": (*scene).rulesOf, "logs": (*scene).podLogs, "ledger": (*scene).ledger,
	}
	want := regexp.MustCompile("(?m)" + args[0])
	ts.Check(testenv.Wait(s.t.Context(), limit, strings.Join(args, " "), func(context.Context) error {
		var out bytes.Buffer
		s.out = &out
		err := commands[args[1]](s, ts, args[2:])
		s.out = nil
		if args[1] == "kubectl" {
			out.WriteString(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
		}
		if want.Match(out.Bytes()) != not {
			return nil
		}
		return errors.Join(err, fmt.Errorf("the output is %q", out.String()))
	}))
}

// stdout is where a command prints.
func (s *scene) stdout(ts *testscript.TestScript) io.Writer {
	if s.out != nil {
		return s.out
	}
	return ts.Stdout()
}

// rulesOf prints the load balancer rules at the address of a Service, as port:member,member.
func (s *scene) rulesOf(ts *testscript.TestScript, args []string) error {
	svc, err := s.Client.CoreV1().Services(metav1.NamespaceDefault).Get(s.t.Context(), args[0], metav1.GetOptions{})
	if err != nil || len(svc.Status.LoadBalancer.Ingress) == 0 {
		return errors.Join(err, errors.New("it has no address"))
	}
	list, err := testenv.Rules(s.t.Context(), s.api(s.t, owner), svc.Status.LoadBalancer.Ingress[0].IP)
	var lines []string
	for _, r := range list {
		lines = append(lines, fmt.Sprintf("%d:%s\n", r.PublicPort, strings.Join(r.Members, ",")))
	}
	slices.Sort(lines)
	_, _ = io.WriteString(s.stdout(ts), strings.Join(lines, ""))
	return err
}

// podLogs prints the logs of the controller's Pods.
func (s *scene) podLogs(ts *testscript.TestScript, _ []string) error {
	_, err := fmt.Fprintln(s.stdout(ts), strings.Join(slices.Collect(maps.Values(s.whole.logs(s.t.Context()))), ""))
	return err
}

// ledger prints who has made which call since the last time: the user, the command, and "refused" for a call that the role lacks.
func (s *scene) ledger(ts *testscript.TestScript, _ []string) error {
	calls := s.cloud.Ledger().Calls()
	for _, c := range calls[s.calls:] {
		refused := ""
		if c.Status == http.StatusUnauthorized || c.ErrorCode == 401 || c.ErrorCode == 432 {
			refused = " refused"
		}
		_, _ = fmt.Fprintf(s.stdout(ts), "%s %s%s\n", c.Caller, c.Command, refused)
	}
	s.calls = len(calls)
	return nil
}

// killed runs csccm and kills it as soon as it says a text, unless it has done all there was to do without it.
func (s *scene) killed(ts *testscript.TestScript, args []string) error {
	s.inherit(ts)
	s.killedAt(s.t, "", args[0], args[2:])
	return nil
}

// noController scales the controller's Deployment to nothing.
func (s *scene) noController(ts *testscript.TestScript, _ []string) error {
	const pods = "app.kubernetes.io/instance=" + release
	err := s.kubernetes(ts, []string{"-n", "kube-system", "scale", "deployment", "-l", pods, "--replicas=0"})
	if err == nil {
		err = s.kubernetes(ts, []string{"-n", "kube-system", "wait", "pods", "-l", pods, "--for=delete", "--timeout=2m"})
	}
	return err
}

// pauseLeader stops the process of the Pod that leads, which keeps the lease.
func (s *scene) pauseLeader(*testscript.TestScript, []string) error {
	return syscall.Kill(s.whole.leadingPID(s.t), syscall.SIGSTOP)
}

// behind sets SERVER to a proxy of the API server. In the answers to requests whose path has an end it replaces a regular expression.
func (s *scene) behind(ts *testscript.TestScript, args []string) error {
	config, err := s.AdminConfig()
	if err != nil {
		return err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	from := regexp.MustCompile(args[1])
	proxy := httputil.NewSingleHostReverseProxy(target)
	if proxy.Transport, err = rest.TransportFor(config); err != nil {
		return err
	}
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.URL.Path, args[0]) {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		body = from.ReplaceAll(body, []byte(args[2]))
		r.Body, r.ContentLength, r.StatusCode = io.NopCloser(bytes.NewReader(body)), int64(len(body)), http.StatusOK // it reaches no Pod on loopback
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Accept", "application/json") // not protobuf, in which nobody finds anything
		proxy.ServeHTTP(w, r)
	}))
	s.t.Cleanup(server.Close)
	ts.Setenv("SERVER", server.URL)
	return nil
}
