// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/csccm/csccm/installer/commands/cks/iso"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

// The commands of scripts whose cluster has nodes.

// join starts nodes. Each is a NAME of the example or NAME=ADDRESS, optionally with :joined (it joined before there
// was a cloud provider), :not-external (its kubelet runs without --cloud-provider=external) or :plain (its Pods have
// no sandbox). A running kubelet with the same name stops.
func (s *scene) join(_ *testscript.TestScript, args []string) {
	for _, arg := range args {
		name, how, _ := strings.Cut(arg, ":")
		name, address, _ := strings.Cut(name, "=")
		o := processnode.Options{Name: name, Address: address}
		if i := slices.IndexFunc(testenv.ExampleNodes(), func(n processnode.Options) bool {
			return n.Name == name
		}); i >= 0 {
			o = testenv.ExampleNodes()[i]
		}
		o.Joined, o.NotExternal, o.Plain = how == "joined", how == "not-external", how == "plain"
		s.stopKubelet(name)
		must.Get(s.whole.nodes.Join(s.t.Context(), o))
	}
}

// leave ends the kubelet of a node. The Node remains and becomes not ready.
func (s *scene) leave(_ *testscript.TestScript, args []string) {
	s.stopKubelet(args[0])
	s.notReady(s.t, args[0])
}

func (s *scene) stopKubelet(name string) {
	for _, n := range s.whole.nodes.Nodes() {
		if n.Name() == name {
			n.Stop() // does nothing if the node has stopped before
		}
	}
}

// credentials writes the controller's Secret from a file.
func (s *scene) credentials(ts *testscript.TestScript, args []string) {
	s.env.secret(s.t, ts.ReadFile(args[0]))
}

// nodesReady waits until the given number of nodes is ready.
func (s *scene) nodesReady(_ *testscript.TestScript, args []string) {
	s.initialised(s.t, must.Get(strconv.Atoi(args[0])))
}

// addressOf waits for the address of a Service and sets a variable to it.
func (s *scene) addressOf(ts *testscript.TestScript, args []string) {
	ts.Setenv(args[0], s.address(s.t, args[1]))
}

// until runs a command until its output has a match of a regular expression, or with "!" has none.
func until(ts *testscript.TestScript, not bool, args []string) {
	s := ts.Value("scene").(*scene)
	commands := map[string]func(*scene, *testscript.TestScript, []string){
		"kubectl": (*scene).kubernetes,
		"cloud":   (*scene).call,
		"rules":   (*scene).rulesOf,
		"logs":    (*scene).podLogs,
		"ledger":  (*scene).ledger,
	}

	want := regexp.MustCompile("(?m)" + args[0])
	s.eventually(s.t, strings.Join(args, " "), func(context.Context) {
		var out bytes.Buffer
		s.out = &out
		err := must.Catch(func() { commands[args[1]](s, ts, args[2:]) })
		s.out = nil
		if args[1] == "kubectl" {
			out.WriteString(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
		}
		must.Be(want.Match(out.Bytes()) != not, "the output is %q, %v", &out, err)
	})
}

// stdout returns the writer to which a command prints.
func (s *scene) stdout(ts *testscript.TestScript) io.Writer {
	if s.out != nil {
		return s.out
	}
	return ts.Stdout()
}

// rulesOf prints the load balancer rules at the address of a Service, as port:member,member.
func (s *scene) rulesOf(ts *testscript.TestScript, args []string) {
	rules := must.Get(testenv.Rules(s.t.Context(), s.api(s.t, owner), s.address(s.t, args[0])))
	_, _ = fmt.Fprintln(s.stdout(ts), strings.Join(membersOf(rules), "\n"))
}

// podLogs prints the logs of the controller's Pods.
func (s *scene) podLogs(ts *testscript.TestScript, _ []string) {
	_, _ = fmt.Fprintln(s.stdout(ts), strings.Join(slices.Collect(maps.Values(s.whole.logs(s.t.Context()))), ""))
}

// ledger prints the calls since the last time: the user, the command, and "refused" for a call that the role does not
// allow.
func (s *scene) ledger(ts *testscript.TestScript, _ []string) {
	calls := s.cloud.Ledger().Calls()
	for _, c := range calls[s.calls:] {
		refused := ""
		if c.Status == http.StatusUnauthorized || c.ErrorCode == 401 || c.ErrorCode == 432 {
			refused = " refused"
		}
		_, _ = fmt.Fprintf(s.stdout(ts), "%s %s%s\n", c.Caller, c.Command, refused)
	}
	s.calls = len(calls)
}

// killed runs csccm and kills it as soon as it prints a text, unless it completes without printing it.
func (s *scene) killed(ts *testscript.TestScript, args []string) {
	s.inherit(ts)
	s.killedAt(s.t, args[0], args[2:])
}

// noController scales the controller's Deployment to 0.
func (s *scene) noController(ts *testscript.TestScript, _ []string) {
	const pods = "app.kubernetes.io/instance=" + release
	s.kubernetes(ts, []string{"-n", "kube-system", "scale", "deployment", "-l", pods, "--replicas=0"})
	s.kubernetes(ts, []string{"-n", "kube-system", "wait", "pods", "-l", pods, "--for=delete", "--timeout=2m"})
}

// pauseLeader stops (SIGSTOP) the process of the Pod that leads, so it keeps the lease. Its log says that it leads.
func (s *scene) pauseLeader(*testscript.TestScript, []string) {
	for pod, log := range s.whole.logs(s.t.Context()) {
		for _, n := range s.whole.nodes.Nodes() {
			if pid, ok := n.PodPID(metav1.NamespaceSystem, pod); ok && strings.Contains(log, leads) {
				must.OK(syscall.Kill(pid, syscall.SIGSTOP))
				return
			}
		}
	}
	must.Fail("no Pod leads")
}

// behind sets SERVER to a proxy of the API server. It replaces a regular expression in the answers to requests whose
// path has a given end.
func (s *scene) behind(ts *testscript.TestScript, args []string) {
	from := regexp.MustCompile(args[1])
	ts.Setenv("SERVER", between(s.t, s.url(), s.transport(), func(r *http.Response, body []byte) []byte {
		if !strings.HasSuffix(r.Request.URL.Path, args[0]) {
			return body
		}
		r.StatusCode = http.StatusOK // the API server cannot reach Pods on loopback
		return from.ReplaceAll(body, []byte(args[2]))
	}))
}

// proxied matches the path of a request to a Pod through the API server.
var proxied = regexp.MustCompile(`^/api/v1/namespaces/([^/]+)/pods/https:([^:]+):([0-9]+)/proxy(/.*)$`)

// pods sets SERVER to a proxy of the API server that connects to Pods itself, without credentials, because the API
// server does not connect to loopback addresses.
func (s *scene) pods(ts *testscript.TestScript, _ []string) {
	// #nosec G402 -- as the API server
	direct := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ts.Setenv("SERVER", between(s.t, s.url(), s.transport(), func(r *http.Response, body []byte) []byte {
		to := proxied.FindStringSubmatch(r.Request.URL.Path)
		if to == nil {
			return body
		}

		pod, err := s.Client.CoreV1().Pods(to[1]).Get(s.t.Context(), to[2], metav1.GetOptions{})
		if err != nil {
			return body
		}

		ask, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet,
			"https://"+pod.Status.PodIP+":"+to[3]+to[4], nil)
		if err != nil {
			return body
		}

		answer, err := direct.Do(ask)
		if err != nil {
			return body
		}
		defer func() { _ = answer.Body.Close() }()
		body, _ = io.ReadAll(answer.Body)
		r.StatusCode = answer.StatusCode
		return body
	}))
}

// transport sends requests as the administrator.
func (s *scene) transport() http.RoundTripper {
	return must.Get(rest.TransportFor(must.Get(s.AdminConfig())))
}

// serve makes an address answer like an API server, with a certificate for the address in the second argument.
func (s *scene) serve(_ *testscript.TestScript, args []string) {
	if s.serving != nil {
		s.serving.Close()
	}
	crt, key := must.Get2(cert.GenerateSelfSignedCertKey(args[1], nil, nil))
	s.serving = httptest.NewUnstartedServer(http.NotFoundHandler())
	_ = s.serving.Listener.Close()
	s.serving.Listener = must.Get(new(net.ListenConfig).Listen(s.t.Context(), "tcp", args[0]+":6443"))
	s.serving.TLS = &tls.Config{
		Certificates: []tls.Certificate{must.Get(tls.X509KeyPair(crt, key))},
		MinVersion:   tls.VersionTLS12,
	}
	s.serving.StartTLS()
	s.t.Cleanup(s.serving.Close)
}

// certificate writes a self-signed certificate for a name to tls.crt and tls.key.
func (s *scene) certificate(_ *testscript.TestScript, args []string) {
	crt, key := must.Get2(cert.GenerateSelfSignedCertKey(args[0], nil, nil))
	s.file(s.t, "tls.crt", string(crt))
	s.file(s.t, "tls.key", string(key))
}

// provider writes the provider.yaml that csccm cks iso puts into an ISO, with the values of a file.
func (s *scene) provider(ts *testscript.TestScript, args []string) {
	values := must.Get(helm.ParseValues([]string{ts.MkAbs(args[1])}, nil, nil))
	s.file(s.t, args[0], must.Get(iso.Provider(s.t.Context(), must.Get(helm.Embedded()), values, "v1.37.1")))
}

// datapath starts the simulator's data path. As kube-proxy does on real nodes, it forwards the node ports of the
// Services of csccm test to their Pods.
func (s *scene) datapath(*testscript.TestScript, []string) {
	members := &datapath.Members{}
	o := datapath.Options{Mode: datapath.Direct, Members: members, HAProxy: datapath.FindHAProxy()}
	running := must.Get(datapath.Start(s.t.Context(), s.cloud.Simulator, o))
	ctx, stop := context.WithCancel(s.t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			if err := must.Catch(func() { must.OK(members.Set(s.nodePorts(ctx))) }); err != nil && ctx.Err() == nil {
				s.t.Error(err)
			}
		}
	})
	s.t.Cleanup(func() { stop(); following.Wait(); running.Close() })
}

func (s *scene) nodePorts(ctx context.Context) map[string]string {
	to := map[string]string{}
	for _, svc := range must.Get(s.Client.CoreV1().Services(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{})).Items {
		if !strings.HasPrefix(svc.Namespace, "csccm-test-") {
			continue
		}
		o := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(metav1.SetAsLabelSelector(svc.Spec.Selector))}
		for _, pod := range must.Get(s.Client.CoreV1().Pods(svc.Namespace).List(ctx, o)).Items {
			for _, p := range svc.Spec.Ports {
				for _, node := range testenv.ExampleNodes() {
					if ip := pod.Status.PodIP; ip != "" {
						to[net.JoinHostPort(node.Address, fmt.Sprint(p.NodePort))] = net.JoinHostPort(ip,
							p.TargetPort.String())
					}
				}
			}
		}
	}

	return to
}
