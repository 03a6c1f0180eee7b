// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

// remedied is a cluster in which a check fails, and what its remedy needs beside its own commands.
type remedied struct {
	code, what string
	// breaks changes a healthy cluster so that the check fails.
	breaks func(t *testing.T, e *remedyEnv)
	// says is part of the failing check's message or objects.
	says string
	// person does what the remedy asks of a person: another machine, CloudStack's administrator. nil: the commands heal.
	person func(t *testing.T, e *remedyEnv)
	// args are more arguments of doctor.
	args []string
	// install is for a check that only csccm install runs.
	install bool
}

// remedyEnv is the cluster of the table. The rows share it, one after the other.
type remedyEnv struct {
	*clusterEnv
	good    string           // the cloud-config of the Secret
	serving *httptest.Server // what answers at the address of the API server of a cluster of CKS
}

// backquoted are the commands of a remedy.
var backquoted = regexp.MustCompile("`([^`]+)`")

// TestRemedies breaks a cluster, runs the commands of the remedy that doctor names as they stand, and looks again.
func TestRemedies(t *testing.T) { //nolint:tparallel // the rows share one cluster, in this order
	t.Parallel()
	for _, c := range check.All() {
		if !slices.ContainsFunc(slices.Concat(remediesBefore, remedies, remediesOfCKS), func(r remedied) bool { return r.code == c.Code }) {
			t.Errorf("%s has no row", c.Code)
		}
	}
	e := &remedyEnv{clusterEnv: newClusterEnv(t, remedyWorld())}
	e.join(t, cp1, worker1, worker2)
	e.good = string(e.config(t, owner).Render())
	e.secret(t, e.good)
	e.heals(t, remediesBefore)
	e.secret(t, e.good)
	e.csccm(t, "", append([]string{"install", "--yes"}, processFlags...)...).want(t, 0)
	e.initialised(t, 3)
	e.service(t, "web", 80)
	e.address(t, "web")
	e.heals(t, remedies)
	e.kube(t, "label", "namespace", "kube-system", "pod-security.kubernetes.io/enforce-") // the remedy of K8S-005; others use this control plane
}

// remedyWorld is the example world with a user whose role lacks a command, and a VM in a network without load balancers.
func remedyWorld() *simulator.World {
	w := simulator.ExampleWorld()
	w.PublicIPs = nil // rules of an older provider, which LB-002 names
	w.Roles = append(w.Roles, simulator.Role{Name: "lean", Type: "User", Rules: []simulator.RoleRule{{Deny: "createFirewallRule"}}})
	w.Accounts = append(w.Accounts, simulator.Account{Name: "lean", Role: "lean", Users: []simulator.User{{Name: "lean"}}})
	w.Networks = append(w.Networks, simulator.Network{Name: "flat-net", Account: "k8s", Type: "Shared", Offering: "DefaultSharedNetworkOffering", CIDR: "10.3.3.0/24"})
	w.VirtualMachines = append(w.VirtualMachines, simulator.VirtualMachine{Name: "flat", Account: "k8s", NICs: []simulator.NIC{{Network: "flat-net", IP: "10.3.3.21"}}})
	return w
}

func (e *remedyEnv) heals(t *testing.T, rows []remedied) {
	t.Helper()
	for i := range rows {
		t.Run(rows[i].code+" "+rows[i].what, func(t *testing.T) { e.heal(t, &rows[i]) })
	}
}

// only runs one check.
func (e *remedyEnv) only(t *testing.T, row *remedied) check.Result {
	t.Helper()
	if row.install {
		s := e.csccm(t, "", append([]string{"install", "--dry-run"}, processFlags...)...)
		if _, remedy, failed := strings.Cut(s.all, "fix: "); failed {
			return check.Result{Outcome: check.Failed, Message: s.all, Remedy: remedy}
		}
		return check.Result{Outcome: check.OK}
	}
	s := e.csccm(t, "", slices.Concat([]string{"doctor", "--only", row.code, "-o", "json"}, row.args)...)
	var r check.Report
	if err := json.Unmarshal([]byte(s.out), &r); err != nil {
		t.Fatalf("%v: %s", err, s.all)
	}
	i := slices.IndexFunc(r.Checks, func(c check.Result) bool { return c.Code == row.code })
	if i < 0 {
		t.Fatalf("the report has no %s: %s", row.code, s.all)
	}
	return r.Checks[i]
}

func (e *remedyEnv) heal(t *testing.T, row *remedied) {
	t.Helper()
	row.breaks(t, e)
	var found check.Result
	e.within(t, row.code+" to fail", func(context.Context) error {
		found = e.only(t, row)
		text := found.Message
		for _, o := range found.Objects {
			text += "\n" + o.String() + ": " + o.Message
		}
		if found.Outcome != check.Failed && found.Outcome != check.Warning || !strings.Contains(text, row.says) {
			return fmt.Errorf("it is %s: %s", found.Outcome, text)
		}
		return nil
	})
	if found.Remedy == "" {
		t.Fatalf("%s has no remedy", row.code)
	}
	commands := backquoted.FindAllStringSubmatch(found.Remedy, -1)
	if len(commands) == 0 && row.person == nil {
		t.Fatalf("the remedy has no command, and nobody follows it: %s", found.Remedy)
	}
	for _, c := range commands {
		if strings.HasPrefix(c[1], "csccm ") || strings.HasPrefix(c[1], "kubectl ") { // others are for another machine
			e.line(t, c[1])
		}
	}
	if row.person != nil {
		row.person(t, e)
	}
	e.within(t, row.code+" to pass", func(context.Context) error {
		if now := e.only(t, row); now.Outcome != check.OK {
			return fmt.Errorf("it is %s: %s %v", now.Outcome, now.Message, now.Objects)
		}
		return nil
	})
}

// within waits for a check, which sees a change at once, or when the controller has made its next round.
func (*remedyEnv) within(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	const patience = 150 * time.Second
	if err := testenv.Wait(t.Context(), patience, what, try); err != nil {
		t.Fatal(err)
	}
}

// line runs a command line in a shell on a terminal, where somebody answers each question with yes.
func (e *remedyEnv) line(t *testing.T, line string) {
	t.Helper()
	bin := t.TempDir()
	for name, path := range map[string]string{"csccm": programs.CLI, "kubectl": e.Kubectl} {
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line) // #nosec G204 -- a remedy
	cmd.Env = []string{"KUBECONFIG=" + e.Kubeconfig, "HOME=" + e.home, "PATH=" + bin + ":" + os.Getenv("PATH"), "TERM=dumb"}
	cmd.Dir = e.home
	person, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close()
	var screen bytes.Buffer
	answered := 0
	for buffer := make([]byte, 4096); ; {
		n, err := person.Read(buffer)
		screen.Write(buffer[:n])
		if asked := strings.Count(screen.String(), "(yes or no)"); asked > answered {
			answered = asked
			_, _ = person.WriteString("yes\n")
		}
		if err != nil {
			break
		}
	}
	_ = person.Close()
	err = cmd.Wait()
	fmt.Fprintf(&e.session, "$ %s\n%s[%v]\n\n", line, screen.String(), err)
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, screen.String())
	}
}

// kube runs kubectl, which must succeed.
func (e *remedyEnv) kube(t *testing.T, args ...string) {
	t.Helper()
	if out, err := e.kubectl(t.Context(), "", args...); err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}

// configured writes the Secret with a changed cloud-config.
func configured(change func(c *cloudstack.Config)) func(t *testing.T, e *remedyEnv) {
	return func(t *testing.T, e *remedyEnv) {
		t.Helper()
		c := e.config(t, owner)
		change(c)
		e.secret(t, string(c.Render()))
	}
}

// corrected is what somebody does who corrects the Secret.
func corrected(t *testing.T, e *remedyEnv) { t.Helper(); e.secret(t, e.good) }

// behind puts a proxy before the API server that changes the answers to requests whose path has this end.
func (e *remedyEnv) behind(t *testing.T, path string, change func(body []byte) []byte) {
	t.Helper()
	config, err := e.AdminConfig()
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.URL.Path, path) {
			return nil
		}
		var body bytes.Buffer
		_, err := body.ReadFrom(r.Body)
		_ = r.Body.Close()
		changed := change(body.Bytes())
		r.Body, r.ContentLength = http.NoBody, int64(len(changed))
		r.Header.Set("Content-Length", fmt.Sprint(len(changed)))
		r.Body, r.StatusCode = readCloser{bytes.NewReader(changed)}, http.StatusOK // the API server reaches no Pod on loopback
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Accept", "application/json") // not protobuf, in which nobody finds anything
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	e.more = []string{"--server", server.URL}
	t.Cleanup(func() { e.more = nil })
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// strange makes a Node that no kubelet has, which is Ready.
func (e *remedyEnv) strange(t *testing.T, name string, change func(n *corev1.Node)) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(), Reason: "x", Message: "x",
	}}
	n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.OperatingSystem, n.Spec.Unschedulable = "v1.37.1", "linux", true
	change(n)
	nodes := e.Client.CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.eventually(t, "the status of Node "+name, func(ctx context.Context) error { // others write the Node too
		made, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			made.Status = n.Status
			_, err = nodes.UpdateStatus(ctx, made, metav1.UpdateOptions{})
		}
		return err
	})
}

// withoutNode deletes a Node.
func withoutNode(name string) func(t *testing.T, e *remedyEnv) {
	return func(t *testing.T, e *remedyEnv) { t.Helper(); e.kube(t, "delete", "node", name, "--ignore-not-found") }
}

// web is the Service that has an address.
func (e *remedyEnv) web(t *testing.T) *corev1.Service {
	t.Helper()
	svc, err := e.Client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return svc
}

// warned makes an Event of the controller about the Service.
func (e *remedyEnv) event1(t *testing.T, kind, name, namespace string, uid types.UID, level, reason string) {
	t.Helper()
	now := metav1.Now()
	v := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "row-", Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: kind, Name: name, Namespace: namespace, UID: uid},
		Type:           level, Reason: reason, Message: "of the test", Source: corev1.EventSource{Component: "cloudstack-cloud-controller-manager"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	if _, err := e.Client.CoreV1().Events(metav1.NamespaceDefault).Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// rule is the load balancer rule of the Service web.
func (e *remedyEnv) rule(t *testing.T) cloudstack.LoadBalancerRule {
	t.Helper()
	list, err := e.api(t, owner).ListLoadBalancerRules(t.Context(), cloudstack.LoadBalancerRuleQuery{})
	if err != nil {
		t.Fatal(err)
	}
	ip := e.address(t, "web")
	for _, r := range list {
		if r.PublicIP == ip {
			return r
		}
	}
	t.Fatalf("there is no rule at %s", ip)
	return cloudstack.LoadBalancerRule{}
}

// balance creates a rule whose member is worker1.
func (e *remedyEnv) balance(t *testing.T, q cloudstack.CreateLoadBalancerRuleRequest) {
	t.Helper()
	client := e.api(t, owner)
	rule, err := client.CreateLoadBalancerRule(t.Context(), q)
	e.await(t, "createLoadBalancerRule", rule, err)
	s, err := client.AssignToLoadBalancerRule(t.Context(), rule.ID, cloudstack.VMs(e.vm(t, worker1.Name)))
	e.await(t, "assignToLoadBalancerRule", s, err)
}

func (e *remedyEnv) await(t *testing.T, command string, s cloudstack.Submitted, err error) {
	t.Helper()
	if err == nil {
		_, err = e.api(t, owner).Jobs().Wait(t.Context(), command, s.JobID)
	}
	if err != nil {
		t.Fatal(command, err)
	}
}

// controllerName is the name of the chart's objects.
const controllerName = "cloudstack-cloud-controller-manager"

// remediesBefore are the rows before the controller is installed. Later the values say that the Pods do not use the host's network,
// and the controller would work with the keys of CS-003.
var remediesBefore = []remedied{
	{
		code: "K8S-005", what: "a namespace that is restricted", says: `enforces "restricted"`,
		breaks: func(t *testing.T, e *remedyEnv) {
			e.kube(t, "label", "namespace", "kube-system", "pod-security.kubernetes.io/enforce=restricted")
		},
	},
	{
		code: "HELM-002", what: "an object of the chart's name", says: "HELM-002 failed", install: true,
		breaks: func(t *testing.T, e *remedyEnv) {
			e.kube(t, "-n", "kube-system", "create", "serviceaccount", controllerName)
		},
	},
	{
		code: "CS-003", what: "a role that lacks a command", says: "the role refuses createFirewallRule",
		breaks: func(t *testing.T, e *remedyEnv) { e.secret(t, string(e.config(t, "lean").Render())) },
		person: corrected, // with keys of a user with the default role
	},
}

// remedies are the rows of a cluster with the controller.
var remedies = []remedied{
	{
		code: "K8S-001", what: "another server", says: "connection refused",
		breaks: func(_ *testing.T, e *remedyEnv) { e.more = []string{"--server", "http://127.0.0.1:1"} },
		person: func(_ *testing.T, e *remedyEnv) { e.more = nil },
	},
	{
		code: "K8S-002", what: "an old API server", says: "too old",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.behind(t, "/version", func([]byte) []byte { return []byte(`{"major":"1","minor":"20","gitVersion":"v1.20.0"}`) })
		},
		person: func(_ *testing.T, e *remedyEnv) { e.more = nil }, // upgrades the cluster
	},
	{
		code: "K8S-003", what: "a user without rights", says: "the caller may not", args: []string{"--phase", "preflight", "--as", "jane"},
		breaks: func(*testing.T, *remedyEnv) {},
		person: func(t *testing.T, e *remedyEnv) {
			e.kube(t, "create", "clusterrolebinding", "jane", "--clusterrole", "cluster-admin", "--user", "jane")
		},
	},
	{
		code: "K8S-004", what: "a node whose clock is ahead", says: "in the future",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.strange(t, "early", func(n *corev1.Node) {
				n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Hour))
			})
		},
		person: withoutNode("early"),
	},
	{
		code: "K8S-006", what: "an old kubelet", says: "v1.30.0",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.strange(t, "old", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.30.0" })
		},
		person: withoutNode("old"),
	},
	{
		code: "HELM-003", what: "somebody scaled the Deployment", says: "spec.replicas: 0 -> ",
		breaks: func(t *testing.T, e *remedyEnv) { e.noController(t) },
	},
	{
		code: "HELM-003", what: "somebody deleted the bindings of the policies", says: "is in the release and not in the cluster",
		breaks: deleteBindings,
	},
	{
		code: "HELM-003", what: "somebody changed the role", says: "rules",
		breaks: func(t *testing.T, e *remedyEnv) {
			list, err := e.Client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + release})
			if err != nil || len(list.Items) == 0 {
				t.Fatal(err, len(list.Items))
			}
			list.Items[0].Rules[0].Verbs = []string{"get"}
			if _, err := e.Client.RbacV1().ClusterRoles().Update(t.Context(), &list.Items[0], metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	},
	{
		code: "CS-001", what: "another URL", says: "cannot reach the API",
		breaks: configured(func(c *cloudstack.Config) { c.APIURL = "http://127.0.0.1:1/client/api" }), person: corrected,
	},
	{
		code: "CS-002", what: "another key", says: "401",
		breaks: configured(func(c *cloudstack.Config) { c.SecretKey = strings.Repeat("x", 86) }), person: corrected,
	},
	{
		code: "CS-004", what: "another zone", says: `zone "mars" does not exist`,
		breaks: configured(func(c *cloudstack.Config) { c.Zone = "mars" }), person: corrected,
	},
	{
		code: "CS-007", what: "plain HTTP", says: "without TLS",
		breaks: configured(func(c *cloudstack.Config) { c.APIURL = "http://192.0.2.1/client/api" }), person: corrected,
	},
	{
		code: "CS-007", what: "any certificate", says: "ssl-no-verify",
		breaks: configured(func(c *cloudstack.Config) { c.SSLNoVerify = true }), person: corrected,
	},
	{
		code: "NODE-002", what: "a node without a VM", says: "Node ghost: has no VM",
		breaks: func(t *testing.T, e *remedyEnv) { e.strange(t, "ghost", func(*corev1.Node) {}) }, person: withoutNode("ghost"),
	},
	{
		code: "NODE-003", what: "a provider ID of no VM", says: "names no VM",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.strange(t, "dangling", func(n *corev1.Node) { n.Spec.ProviderID = "external-cloudstack://99999999-0000-4000-8000-000000000000" })
		},
	},
	{
		code: "CS-005", what: "a node in a network without load balancers", says: "its offering lacks Lb",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.strange(t, "flat", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "true"} })
		},
		person: withoutNode("flat"), // a node in another network takes its place
	},
	{
		code: "NODE-004", what: "a node that waits for its VM", says: "Node waiting: tainted for ",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.strange(t, "waiting", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: taint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
			})
			e.behind(t, "/nodes", func(nodes []byte) []byte { // since yesterday
				const day = `"2006-01-02T`
				now := time.Now().UTC()
				return bytes.ReplaceAll(nodes, []byte(now.Format(day)), []byte(now.AddDate(0, 0, -1).Format(day)))
			})
		},
		person: withoutNode("waiting"), // its kubelet registers it by the VM's name
	},
	{
		code: "NODE-005", what: "the taint evicts", says: "NoExecute",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.noController(t) // it would take the taint away
			e.kube(t, "taint", "node", worker2.Name, taint+"=true:NoExecute")
		},
		person: func(t *testing.T, e *remedyEnv) { e.csccm(t, "", "upgrade", "--yes").want(t, 0) },
	},
	{
		code: "NODE-007", what: "a wrong zone", says: "zone is mars",
		breaks: func(t *testing.T, e *remedyEnv) { // a zone that was renamed; one label alone is set back by the other
			e.kube(t, "label", "--overwrite", "node", worker2.Name, "topology.kubernetes.io/zone=mars", "failure-domain.beta.kubernetes.io/zone=mars")
		},
	},
	{
		code: "NODE-009", what: "a VM is stopped", says: "Stopped",
		breaks: func(t *testing.T, e *remedyEnv) { e.power(t, "stopVirtualMachine", worker2.Name) },
		person: func(t *testing.T, e *remedyEnv) { e.power(t, "startVirtualMachine", worker2.Name) },
	},
	{
		code: "CCM-001", what: "no replicas", says: "0 of 0 Pods",
		breaks: func(t *testing.T, e *remedyEnv) { e.noController(t) },
	},
	{
		code: "CCM-003", what: "another provider", says: "openstack-cloud-controller-manager",
		breaks: func(t *testing.T, e *remedyEnv) {
			labels := map[string]string{"app": "other"}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "openstack-cloud-controller-manager"}}
			d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1"}}
			d.Spec.Template.Spec.NodeSelector = map[string]string{"no": "node"}
			if _, err := e.Client.AppsV1().Deployments(metav1.NamespaceSystem).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	},
	{
		code: "CCM-004", what: "a Pod that is not healthy", says: "/healthz: [-]leaderElection failed",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.behind(t, "/proxy/healthz", func([]byte) []byte { return []byte("[-]leaderElection failed") })
		},
		person: func(_ *testing.T, e *remedyEnv) { e.more = nil }, // ends what the log names
	},
	{
		code: "CCM-005", what: "a warning about a Service", says: "Service default/web: PortTaken",
		breaks: func(t *testing.T, e *remedyEnv) {
			svc := e.web(t)
			e.event1(t, "Service", svc.Name, svc.Namespace, svc.UID, corev1.EventTypeWarning, "PortTaken")
		},
		person: func(t *testing.T, e *remedyEnv) { // frees the port; the controller says so
			svc := e.web(t)
			e.event1(t, "Service", svc.Name, svc.Namespace, svc.UID, corev1.EventTypeNormal, "EnsuredLoadBalancer")
		},
	},
	{
		code: "CCM-005", what: "a node that is out of service", says: "Node lost: NodeOutOfService",
		breaks: func(t *testing.T, e *remedyEnv) { // not one that is well: then the warning is over; no Service misses its VM
			e.strange(t, "lost", func(n *corev1.Node) {
				n.Status.Conditions[0].Status = corev1.ConditionFalse
				n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "true"}
			})
			t.Cleanup(func() { _ = e.Client.CoreV1().Nodes().Delete(context.Background(), "lost", metav1.DeleteOptions{}) })
			e.event1(t, "Node", "lost", "", "lost", corev1.EventTypeWarning, "NodeOutOfService")
		},
		person: func(t *testing.T, e *remedyEnv) { // starts the VM
			e.event1(t, "Node", "lost", "", "lost", corev1.EventTypeNormal, "NodeInService")
		},
	},
	{
		code: "CCM-006", what: "the Pod runs on a worker", says: "runs on node demo-worker-1",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.csccm(t, "", "upgrade", "--yes", "--set", "controlPlaneOnly=false", "--set-string", `nodeSelector.kubernetes\.io/hostname=`+worker1.Name).want(t, 0)
		},
	},
	{
		code: "LB-001", what: "somebody removed the firewall rule", says: "would",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.withoutFirewall(t, e.rule(t).PublicIPID, func(*cloudstack.FirewallRule) bool { return true })
		},
	},
	{
		code: "LB-001", what: "a Service that is refused", says: "refused: ",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.annotated(t, "odd", map[string]string{annotations + "network": "no-such-network"}, 81)
		},
		person: func(t *testing.T, e *remedyEnv) { e.remove(t, "odd") },
	},
	{
		code: "LB-002", what: "a rule with an old name", says: "Service default/web",
		breaks: func(t *testing.T, e *remedyEnv) {
			r := e.rule(t)
			s, err := e.api(t, owner).UpdateLoadBalancerRule(t.Context(), cloudstack.UpdateLoadBalancerRuleRequest{
				ID: r.ID, Protocol: r.Protocol, Algorithm: r.Algorithm, Name: strings.Replace(r.Name, "-tcp-", "-", 1),
			})
			e.await(t, "updateLoadBalancerRule", s, err)
		},
	},
	{
		code: "LB-003", what: "a rule without a Service", says: "all its members are nodes",
		breaks: func(t *testing.T, e *remedyEnv) {
			r := e.rule(t)
			e.balance(t, cloudstack.CreateLoadBalancerRuleRequest{
				PublicIPID: r.PublicIPID, Name: "affffffffffffffffffffffffffffff0-tcp-9091", Algorithm: "roundrobin", PublicPort: 9091, PrivatePort: 30999, Protocol: "tcp", NetworkID: r.NetworkID,
			})
		},
	},
	{
		code: "LB-002", what: "a second rule for the port of a Service", says: "LoadBalancerRule ",
		breaks: func(t *testing.T, e *remedyEnv) {
			client, r := e.api(t, owner), e.rule(t)
			ip, err := client.AssociateIP(t.Context(), cloudstack.AssociateIPRequest{NetworkID: r.NetworkID})
			e.await(t, "associateIpAddress", ip, err)
			e.balance(t, cloudstack.CreateLoadBalancerRuleRequest{
				PublicIPID: ip.ID, Name: r.Name, Algorithm: "roundrobin", PublicPort: r.PublicPort, PrivatePort: r.PrivatePort, Protocol: "tcp", NetworkID: r.NetworkID,
			})
		},
	},
	{
		code: "HELM-001", what: "a revision that was left pending", says: "pending-upgrade",
		breaks: func(t *testing.T, e *remedyEnv) { e.revision(t, "pending-upgrade", nil) },
	},
	{
		code: "HELM-004", what: "keys among the values of a revision", says: "holds credentials",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.revision(t, "superseded", map[string]any{"cloudConfig": "secret-key = " + e.config(t, owner).SecretKey})
		},
	},
	{
		code: "CCM-002", what: "the leader hangs", says: "nobody has renewed the lease",
		breaks: func(t *testing.T, e *remedyEnv) {
			if err := syscall.Kill(e.leadingPID(t), syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		},
	},
	{
		code: "CS-006", what: "a setting that is read at the start", says: "still works with the old zone",
		breaks: func(t *testing.T, e *remedyEnv) {
			c := e.config(t, owner)
			c.Zone = "zone-1"
			e.good = string(c.Render())
			e.secret(t, e.good)
		},
	},
	{
		code: "NODE-001", what: "a kubelet without the flag", says: "Node demo-worker-2: not-external",
		breaks: func(t *testing.T, e *remedyEnv) {
			o := worker2
			o.NotExternal = true
			e.rejoin(t, o)
		},
		person: func(t *testing.T, e *remedyEnv) { e.rejoin(t, worker2); e.initialised(t, 3) },
	},
	{
		code: "NODE-006", what: "a kubelet that writes other addresses", says: "its kubelet writes InternalIP 10.9.9.9",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.kube(t, "patch", "node", worker2.Name, "--subresource", "status", "--field-manager", "kubelet", "-p", `{"status":{"addresses":[{"type":"InternalIP","address":"10.9.9.9"}]}}`)
		},
		person: func(t *testing.T, e *remedyEnv) { e.rejoin(t, worker2); e.initialised(t, 3) }, // with --cloud-provider=external
	},
	{
		code: "NODE-008", what: "a node whose VM is gone", says: "would be deleted",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.noController(t) // it would go at once
			e.strange(t, "doomed", func(n *corev1.Node) {
				n.Spec.ProviderID = "external-cloudstack://99999999-0000-4000-8000-000000000001"
				n.Status.Conditions[0].Status = corev1.ConditionFalse
			})
		},
		person: func(t *testing.T, e *remedyEnv) { // the Node may go
			withoutNode("doomed")(t, e)
			e.csccm(t, "", "upgrade", "--yes").want(t, 0)
		},
	},
	{
		code: "TEN-002", what: "an annotation that the policy does not allow", says: "is not allowed in namespace default",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.annotated(t, "elsewhere", map[string]string{annotations + "network": "k8s-net"}, 82)
		},
		person: func(t *testing.T, e *remedyEnv) { // its owner
			e.kube(t, "annotate", "service", "elsewhere", annotations+"network-")
		},
	},
	{
		code: "STOR-001", what: "a key that the driver does not know", says: "region",
		breaks: func(t *testing.T, e *remedyEnv) { e.driver(t, "region = r\n") },
		person: func(t *testing.T, e *remedyEnv) { e.driver(t, "") },
	},
	{
		code: "STOR-002", what: "a CSINode of another VM", says: "volumes are attached to the wrong VM",
		breaks: func(t *testing.T, e *remedyEnv) { e.registered(t, "another-vm") },
		person: func(t *testing.T, e *remedyEnv) { // the driver registers the node again
			e.registered(t, e.vm(t, worker1.Name))
			vms, err := e.api(t, owner).ListVirtualMachines(t.Context(), cloudstack.VMQuery{Name: worker1.Name})
			if err != nil || len(vms) != 1 {
				t.Fatal(err, len(vms))
			}
			e.kube(t, "label", "--overwrite", "node", worker1.Name, zoneKey+"="+vms[0].ZoneID)
		},
	},
	{
		code: "TEN-003", what: "the owner takes its consent back", says: "Service default/web has it and does not share it with shop/guest",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.kube(t, "annotate", "service", "web", annotations+"share-with=shop")
			e.kube(t, "create", "namespace", "shop")
			e.kube(t, "apply", "-f", e.file(t, "guest.yaml", fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: guest, annotations: {%saddress: %s}},
				spec: {type: LoadBalancer, ports: [{port: 83}]}}`, annotations, e.address(t, "web"))))
			e.kube(t, "-n", "shop", "wait", "service", "guest", "--for", "jsonpath={.status.loadBalancer.ingress}", "--timeout", "2m")
			e.kube(t, "annotate", "service", "web", annotations+"share-with-")
		},
		person: func(t *testing.T, e *remedyEnv) {
			e.kube(t, "annotate", "service", "web", annotations+"share-with=shop")
		},
	},
	{
		code: "TEN-004", what: "a copy of a Service with its record", says: "CloudStack's tags name Service default/web with another UID",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.noController(t) // it would write a true record
			const record = annotations + "addresses"
			e.annotated(t, "copy", map[string]string{record: e.web(t).Annotations[record]}, 84)
		},
		person: func(t *testing.T, e *remedyEnv) {
			e.csccm(t, "", "upgrade", "--yes").want(t, 0)
			e.address(t, "copy")
		},
	},
	{
		code: "TEN-001", what: "somebody deleted the bindings of the policies", says: "no binding has it refuse anything",
		breaks: deleteBindings,
	},
}

// remediesOfCKS are the rows of a cluster that CKS made in a network of its account.
var remediesOfCKS = []remedied{
	{
		code: "CKS-001", what: "nodes that nobody initialises", says: "its kubelet is not external",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.csccm(t, "", "upgrade", "--yes", "--set", "adoptNodes=false").want(t, 0)
		},
	},
	{
		code: "CKS-002", what: "a VM is stopped", says: "it is Stopped, not Running",
		breaks: func(t *testing.T, e *remedyEnv) { e.power(t, "stopVirtualMachine", e.firstNode(t)) },
		person: func(t *testing.T, e *remedyEnv) { e.power(t, "startVirtualMachine", e.firstNode(t)) },
	},
	{
		code: "CKS-003", what: "a certificate for another address", says: "certificate is valid for 192.0.2.1, not ",
		breaks: func(t *testing.T, e *remedyEnv) { e.serve(t, "192.0.2.1") },
		person: func(t *testing.T, e *remedyEnv) { e.serve(t, e.apiAddress(t).Address) }, // renews it on the control node
	},
	{
		code: "CKS-004", what: "a firewall rule without ports", says: "it is for protocol icmp and has no ports",
		breaks: func(t *testing.T, e *remedyEnv) {
			s, err := e.api(t, owner).CreateFirewallRule(t.Context(), cloudstack.CreateFirewallRuleRequest{PublicIPID: e.apiAddress(t).ID, Protocol: "icmp", CIDRs: []string{"192.0.2.0/24"}})
			e.await(t, "createFirewallRule", s, err)
		},
		person: func(t *testing.T, e *remedyEnv) {
			e.withoutFirewall(t, e.apiAddress(t).ID, func(r *cloudstack.FirewallRule) bool { return r.Protocol == "icmp" })
		},
	},
	{
		code: "CKS-005", what: "a Service that went without the controller", says: "acquired for default/gone, which is gone",
		breaks: func(t *testing.T, e *remedyEnv) {
			e.service(t, "gone", 81)
			e.good = e.address(t, "gone")
			e.noController(t)
			e.kube(t, "patch", "service", "gone", "-p", `{"metadata":{"finalizers":null}}`)
			e.kube(t, "delete", "service", "gone")
		},
		person: func(t *testing.T, e *remedyEnv) {
			s, err := e.api(t, owner).DisassociateIP(t.Context(), e.publicIP(t, e.good).ID)
			e.await(t, "disassociateIpAddress", s, err)
			e.csccm(t, "", "upgrade", "--yes").want(t, 0)
		},
	},
}

// publicIP is an address of the owner.
func (e *remedyEnv) publicIP(t *testing.T, ip string) cloudstack.PublicIP {
	t.Helper()
	list, err := e.api(t, owner).ListPublicIPs(t.Context(), cloudstack.PublicIPQuery{Address: ip})
	if err != nil || len(list) != 1 {
		t.Fatal(err, len(list))
	}
	return list[0]
}

// apiAddress is where CloudStack says that the API server of the only cluster of CKS is.
func (e *remedyEnv) apiAddress(t *testing.T) cloudstack.PublicIP {
	t.Helper()
	clusters, err := e.cloud.Admin(t.Context(), "listKubernetesClusters", map[string]string{"listall": "true"})
	found := regexp.MustCompile(`https://([0-9.]+):6443`).FindStringSubmatch(fmt.Sprint(clusters))
	if err != nil || found == nil {
		t.Fatal(err, clusters)
	}
	return e.publicIP(t, found[1])
}

// serve has the address of the API server answer with a certificate for an address.
func (e *remedyEnv) serve(t *testing.T, ip string) {
	t.Helper()
	if e.serving != nil {
		e.serving.Close()
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0), IPAddresses: []net.IP{net.ParseIP(ip)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	e.serving = httptest.NewUnstartedServer(http.NotFoundHandler())
	_ = e.serving.Listener.Close()
	if e.serving.Listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", e.apiAddress(t).Address+":6443"); err != nil {
		t.Fatal(err)
	}
	e.serving.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	e.serving.StartTLS()
	t.Cleanup(e.serving.Close)
}

// firstNode is the name of a node.
func (e *remedyEnv) firstNode(t *testing.T) string {
	t.Helper()
	nodes, err := e.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		t.Fatal(err)
	}
	return nodes.Items[0].Name
}

// power stops or starts the VM of a node.
func (e *remedyEnv) power(t *testing.T, command, node string) {
	t.Helper()
	params := map[string]string{"id": e.vm(t, node)}
	if command == "stopVirtualMachine" {
		params["forced"] = "true"
	}
	e.admin(t, command, params)
}

// withoutFirewall deletes firewall rules of an address.
func (e *remedyEnv) withoutFirewall(t *testing.T, addressID string, which func(*cloudstack.FirewallRule) bool) {
	t.Helper()
	client := e.api(t, owner)
	list, err := client.ListFirewallRules(t.Context(), cloudstack.FirewallRuleQuery{PublicIPID: addressID})
	if err != nil || len(list) == 0 {
		t.Fatal(err, len(list))
	}
	for i := range list {
		if which(&list[i]) {
			s, err := client.DeleteFirewallRule(t.Context(), list[i].ID)
			e.await(t, "deleteFirewallRule", s, err)
		}
	}
}

const zoneKey = "topology.csi.cloudstack.apache.org/zone"

// driver makes the CSI driver for CloudStack, whose cloud-config has more lines.
func (e *remedyEnv) driver(t *testing.T, more string) {
	t.Helper()
	c := e.config(t, owner)
	file := fmt.Sprintf("[Global]\napi-url = %s\napi-key = %s\nsecret-key = %s\n%s", c.APIURL, c.APIKey, c.SecretKey, more)
	secrets := e.Client.CoreV1().Secrets(metav1.NamespaceSystem)
	_ = secrets.Delete(t.Context(), "csi-secret", metav1.DeleteOptions{})
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "csi-secret"}, StringData: map[string]string{"cloud-config": file}}
	if _, err := secrets.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "csi"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "cloudstack-csi-controller"}}
	d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "cloudstack-csi-driver:v3", Args: []string{"--cloudstack-config=/etc/c/cloud-config"}}}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "csi-secret"}}}}
	d.Spec.Template.Spec.NodeSelector = map[string]string{"no": "node"}
	if _, err := e.Client.AppsV1().Deployments(metav1.NamespaceSystem).Create(t.Context(), d, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// registered makes the CSINode of worker1 name a VM.
func (e *remedyEnv) registered(t *testing.T, vm string) {
	t.Helper()
	nodes := e.Client.StorageV1().CSINodes()
	_ = nodes.Delete(t.Context(), worker1.Name, metav1.DeleteOptions{})
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: worker1.Name}}
	n.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "csi.cloudstack.apache.org", NodeID: vm, TopologyKeys: []string{zoneKey}}}
	if _, err := nodes.Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// rejoin replaces the kubelet of a node, which registers it again.
func (e *remedyEnv) rejoin(t *testing.T, o processnode.Options) {
	t.Helper()
	nodes := e.nodes.Nodes()
	for i := len(nodes) - 1; i >= 0; i-- {
		if nodes[i].Name() == o.Name { // the newest: the others are stopped
			nodes[i].Stop()
			break
		}
	}
	e.kube(t, "delete", "node", o.Name, "--ignore-not-found")
	e.join(t, o)
}

// revision stores a revision of the release beside those that are there.
func (e *remedyEnv) revision(t *testing.T, status string, values map[string]any) {
	t.Helper()
	history, err := e.helm.History(t.Context(), release)
	if err != nil {
		t.Fatal(err)
	}
	n := history[0].Revision + 1
	raw, err := json.Marshal(map[string]any{
		"name": release, "namespace": metav1.NamespaceSystem, "version": n, "manifest": history[0].Manifest, "config": values,
		"info":  map[string]any{"status": status, "first_deployed": time.Now(), "last_deployed": time.Now()},
		"chart": map[string]any{"metadata": map[string]any{"apiVersion": "v2", "name": release, "version": history[0].ChartVersion, "appVersion": history[0].AppVersion}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(raw)
	if cerr := z.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", release, n), Labels: map[string]string{
			"owner": "helm", "name": release, "status": status, "version": fmt.Sprint(n),
		}},
		Type: "helm.sh/release.v1", Data: map[string][]byte{"release": []byte(base64.StdEncoding.EncodeToString(b.Bytes()))},
	}
	if _, err := e.Client.CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// noController scales the Deployment to nothing.
func (e *remedyEnv) noController(t *testing.T) {
	t.Helper()
	e.kube(t, "-n", "kube-system", "scale", "deployment", "-l", "app.kubernetes.io/instance="+release, "--replicas=0")
	e.kube(t, "-n", "kube-system", "wait", "pods", "-l", "app.kubernetes.io/instance="+release, "--for=delete", "--timeout=2m")
}

// vm is the id of a node's VM.
func (e *remedyEnv) vm(t *testing.T, name string) string {
	t.Helper()
	_, id, _ := strings.Cut(e.node(t, name).Spec.ProviderID, "://")
	return id
}

func deleteBindings(t *testing.T, e *remedyEnv) {
	t.Helper()
	api := e.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	list, err := api.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ours := slices.DeleteFunc(list.Items, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
		return !strings.HasPrefix(b.Name, release) && !strings.Contains(b.Name, "cloudstack")
	})
	if len(ours) == 0 {
		t.Fatal(errors.New("there is none"))
	}
	for i := range ours {
		if err := api.Delete(t.Context(), ours[i].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
