// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/simulator"
)

// nodeEnv is a simulated CloudStack with the VMs w1 ... wN of the account k8s.
type nodeEnv struct {
	*testenv.Cloud
	t   *testing.T
	ids map[string]string // of the VMs, by name
}

func newNodeEnv(t *testing.T, vms int) *nodeEnv { t.Helper(); return newNodeEnvWith(t, vms, nil) }

// newNodeEnvWith is newNodeEnv in a changed world.
func newNodeEnvWith(t *testing.T, vms int, change func(world string) string) *nodeEnv {
	t.Helper()
	var w strings.Builder
	w.WriteString(`
version: 4.22.0.0
zones:
  - {name: zone-1, publicRanges: [203.0.113.10-203.0.113.99], hosts: [h1]}
serviceOfferings:
  - {name: Small Instance, cpus: 1, cpuSpeed: 500, memoryMiB: 512}
accounts:
  - {name: admin, role: Root Admin, users: [{name: admin, password: password, apiKey: admin-key, secretKey: admin-secret}]}
  - {name: k8s, role: User, users: [{name: ccm, password: password, apiKey: ` + testAPIKey + `, secretKey: ` + testSecret + `}]}
  - {name: cks, role: Project Kubernetes Service Role, users: [{name: cks, password: password, apiKey: cks-key, secretKey: cks-secret}]}
projects:
  - {name: dev, owner: k8s, members: [cks]}
  - {name: empty, owner: k8s, members: [cks]}
networks:
  - {name: k8s-net, account: k8s, cidr: 10.1.0.0/16}
  - {name: dev-net, project: dev, cidr: 10.2.0.0/16}
virtualMachines:
  - {name: p1, project: dev, offering: Small Instance, nics: [{network: dev-net, ip: 10.2.0.21}]}
  - {name: p2, project: dev, offering: Small Instance, nics: [{network: dev-net, ip: 10.2.0.22}]}
`)
	for i := 1; i <= vms; i++ {
		fmt.Fprintf(&w, "  - {name: w%d, account: k8s, offering: Small Instance, nics: [{network: k8s-net, ip: 10.1.%d.%d}]}\n", i, 1+i/200, 20+i%200)
	}
	text := w.String()
	if change != nil {
		text = change(text)
	}
	env := &nodeEnv{Cloud: testenv.New(t, text, simulator.Options{}), t: t, ids: map[string]string{}}
	for _, project := range []string{"", env.project("dev")} {
		list, err := env.Client(testAPIKey, testSecret).ListVirtualMachines(t.Context(), cloudstack.VMQuery{ProjectID: project})
		require.NoError(t, err)
		for i := range list {
			env.ids[list[i].Name] = list[i].ID
		}
	}
	env.Ledger().Reset()
	return env
}

func (env *nodeEnv) project(name string) string {
	env.t.Helper()
	projects, err := env.Client(testAPIKey, testSecret).ListProjects(env.t.Context())
	require.NoError(env.t, err)
	i := slices.IndexFunc(projects, func(p cloudstack.Project) bool { return p.Name == name })
	require.GreaterOrEqual(env.t, i, 0, name)
	return projects[i].ID
}

// provider makes a provider whose client does not wait long between retries.
func (env *nodeEnv) provider(change func(*cloudstack.Config)) *Provider {
	env.t.Helper()
	cfg := env.Config(testAPIKey, testSecret)
	if change != nil {
		change(cfg)
	}
	_, o := fakeClockOptions() // calls are counted: a list must not get too old because the machine is busy
	p, err := New(cfg, o, env.Option(), testenv.NoJitter)
	require.NoError(env.t, err)
	return p
}

// nodes are the initialised, not ready Nodes of w1 ... wN.
func (env *nodeEnv) nodes(n int) []*corev1.Node {
	var out []*corev1.Node
	for i := 1; i <= n; i++ {
		name := fmt.Sprintf("w%d", i)
		out = append(out, k8sNode(name, node.ProviderID(node.FormUpstream, env.ids[name])))
	}
	return out
}

func (c *cluster) event(reason string) string {
	list, err := c.kube.CoreV1().Events("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return ""
	}
	for i := range list.Items {
		if list.Items[i].Reason == reason {
			return list.Items[i].Message
		}
	}
	return ""
}

func (c *cluster) initialised(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.eventually(name+" is initialised", func() bool {
			n, err := c.node(name)
			return err == nil && !tainted(n, cloudproviderapi.TaintExternalCloudProvider) && len(n.Status.Addresses) > 0
		})
	}
}

// The role that CloudStack Kubernetes Service gives to its clusters allows neither listZones nor listProjects.
func TestSimulatedProjectWithTheRoleOfCKS(t *testing.T) {
	t.Parallel()
	env := newNodeEnv(t, 0)
	nodes := []*corev1.Node{k8sNode("p1", ""), k8sNode("p2.example.org", "")}
	for _, n := range nodes {
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	c := startCluster(t, env.provider(func(cfg *cloudstack.Config) {
		cfg.APIKey, cfg.SecretKey, cfg.ProjectID, cfg.Zone = "cks-key", "cks-secret", env.project("dev"), "zone-1"
	}), nodes...)
	c.initialised("p1", "p2.example.org")
	n, err := c.node("p2.example.org")
	require.NoError(t, err)
	assert.Equal(t, "external-cloudstack://"+env.ids["p2"], n.Spec.ProviderID)
}

func TestSimulatedProjectByName(t *testing.T) {
	t.Parallel()
	env := newNodeEnv(t, 0)
	nodes := uninitialised(1)
	nodes[0].Name = "p1"
	c := startCluster(t, env.provider(func(cfg *cloudstack.Config) { cfg.ProjectID = "dev" }), nodes...)
	c.initialised("p1")
	assert.Equal(t, []string{"listProjects", "listVirtualMachines"}, env.Calls("ccm"))

	_, err := env.provider(func(cfg *cloudstack.Config) { cfg.ProjectID = "prod" }).tryContact(t.Context())
	require.ErrorContains(t, err, `project "prod" not found: the API key's user belongs to "dev", "empty"`)
}

func TestCommandsAreAllowed(t *testing.T) {
	t.Parallel()
	env := newNodeEnv(t, 0)
	user, err := env.Client(testAPIKey, testSecret).ListAPIs(t.Context())
	require.NoError(t, err)
	for _, name := range RequiredCommands {
		assert.Contains(t, user, name, "the default User role")
	}

	admin := env.Client("admin-key", "admin-secret")
	var answer struct {
		Roles []struct {
			ID string `json:"id"`
		} `json:"role"`
		Rules []struct {
			Rule       string `json:"rule"`
			Permission string `json:"permission"`
		} `json:"rolepermission"`
	}
	require.NoError(t, admin.Call(t.Context(), "listRoles", cloudstack.Params{"name": "Project Kubernetes Service Role"}, &answer))
	require.Len(t, answer.Roles, 1)
	require.NoError(t, admin.Call(t.Context(), "listRolePermissions", cloudstack.Params{"roleid": answer.Roles[0].ID}, &answer))
	allowed := map[string]bool{}
	for _, r := range answer.Rules {
		allowed[r.Rule] = r.Permission == "allow"
	}
	for _, name := range needed {
		assert.True(t, allowed[name], "%s is neither optional nor allowed to CKS's clusters", name)
		assert.NotContains(t, Losses, name)
	}
	assert.Subset(t, RequiredCommands, append(needed, OptionalCommands...))
}

// answer replaces an answer of the server.
type answer func(form url.Values, status int, body []byte) (int, []byte, error)

// replacing returns an option whose transport replaces answers while there is a replacement.
func replacing(env *nodeEnv, replacement *atomic.Pointer[answer]) cloudstack.Option {
	return cloudstack.WithTransport(env.Transport(func(_ *http.Request, form url.Values, send func() (*http.Response, error)) (*http.Response, error) {
		res, err := send()
		replace := replacement.Load()
		if replace == nil || err != nil {
			return res, err
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		if res.StatusCode, body, err = (*replace)(form, res.StatusCode, body); err != nil {
			return nil, err
		}
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return res, nil
	}))
}

func says(status int, body string) answer {
	return func(url.Values, int, []byte) (int, []byte, error) { return status, []byte(body), nil }
}

func refuses(code int, text string) answer {
	return says(code, fmt.Sprintf(`{"listvirtualmachinesresponse":{"uuidList":[],"errorcode":%d,"cserrorcode":9999,"errortext":%q}}`, code, text))
}

// cutList keeps only some of the VMs of whole lists; the count stays what the server said, or goes with them.
func cutList(keep func(i int) bool, keepCount bool) answer {
	return func(form url.Values, status int, body []byte) (int, []byte, error) {
		if form.Get("command") != "listVirtualMachines" || form.Get("id") != "" {
			return status, body, nil
		}
		var list struct {
			Response struct {
				Count int               `json:"count"`
				VMs   []json.RawMessage `json:"virtualmachine"`
			} `json:"listvirtualmachinesresponse"`
		}
		if json.Unmarshal(body, &list) != nil {
			return status, body, nil //nolint:nilerr // an answer that is no list stays as it is
		}
		var kept []json.RawMessage
		for i, vm := range list.Response.VMs {
			if keep(i) {
				kept = append(kept, vm)
			}
		}
		if list.Response.VMs = kept; !keepCount {
			list.Response.Count = len(kept)
		}
		out, err := json.Marshal(list)
		return status, out, err
	}
}

// Whatever CloudStack answers, and whatever the cloud-config says: no Node is deleted or tainted, none changes its labels or addresses, and a new one stays
// uninitialised. When the fault is over, the new Node is initialised.
func TestSimulatedFaultsDeleteNoNode(t *testing.T) {
	t.Parallel()
	timeout := func(url.Values, int, []byte) (int, []byte, error) { return 0, nil, context.DeadlineExceeded }
	project := func(name string) func(*nodeEnv, *cloudstack.Config) {
		return func(env *nodeEnv, cfg *cloudstack.Config) { cfg.ProjectID = env.project(name) }
	}
	for _, c := range []struct {
		name   string
		answer answer
		fault  *simulator.Fault
		config func(*nodeEnv, *cloudstack.Config)
		event  string // part of an Event with the reason NodeDeletionRefused
	}{
		{name: "401", answer: refuses(401, "unable to verify user credentials and/or request signature")},
		{name: "432", answer: refuses(432, "The API [listVirtualMachines] does not exist or is not available for the account for user id [x]")},
		{name: "431, the project is gone", answer: refuses(431, "Unable to find project by id")},
		{name: "429", answer: refuses(429, "The given user has reached his/her account api limit, please retry after [20] ms.")},
		{name: "500", answer: says(500, "Internal Server Error")},
		{name: "502 of a proxy", answer: says(502, "<html><body>Bad Gateway</body></html>")},
		{name: "503", answer: refuses(503, "the server is shutting down")},
		{name: "530", answer: refuses(530, "Internal error executing command, please contact your system administrator")},
		{name: "a web page", answer: says(200, "<html>Welcome</html>")},
		{name: "nothing", answer: says(200, "")},
		{name: "half an answer", answer: says(200, `{"listvirtualmachinesresponse":{"count":4,"virtualmachine":[{"id":"`)},
		{name: "no answer in time", answer: timeout},
		{name: "an empty list", answer: says(200, `{"listvirtualmachinesresponse":{}}`)},
		{name: "a count without VMs", answer: says(200, `{"listvirtualmachinesresponse":{"count":5}}`)},
		{name: "a page with fewer VMs than the count", answer: cutList(func(i int) bool { return i < 2 }, true)},
		{name: "a list without most VMs", answer: cutList(func(i int) bool { return i == 0 }, false)},
		{name: "a list with another's VMs", answer: says(200, `{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"00000000-0000-0000-0000-000000000099","name":"stranger","state":"Running","nic":[]}]}}`)},
		{name: "one VM is missing in lists, but is there by id", answer: cutList(func(i int) bool { return i != 2 }, false)},
		{name: "401 to every call", fault: &simulator.Fault{Kind: simulator.FaultErrorBefore, HTTPStatus: 401, Text: "unable to verify user credentials"}},
		{name: "432 to every call", fault: &simulator.Fault{Kind: simulator.FaultErrorBefore, HTTPStatus: 432}},
		{name: "503 to every call", fault: &simulator.Fault{Kind: simulator.FaultErrorBefore, HTTPStatus: 503}},
		{name: "530 to every call", fault: &simulator.Fault{Kind: simulator.FaultErrorBefore}},
		{name: "cut", fault: &simulator.Fault{Kind: simulator.FaultCutBefore}},
		{name: "lost answer", fault: &simulator.Fault{Kind: simulator.FaultLostAnswer}},
		{name: "a wrong key", config: func(_ *nodeEnv, cfg *cloudstack.Config) { cfg.SecretKey = "wrong" }},
		{name: "a wrong project", config: project("dev"), event: "none of the 4 nodes (w1, w2, w3, w4) has a VM in project"},
		{name: "an empty project", config: project("empty"), event: "(0 VMs)"},
		{name: "a project that does not exist", config: func(_ *nodeEnv, cfg *cloudstack.Config) { cfg.ProjectID = "b7f0a1de-0000-4000-8000-000000000000" }},
		{name: "a project by a wrong name", config: func(_ *nodeEnv, cfg *cloudstack.Config) { cfg.ProjectID = "prod" }},
		{name: "another zone", config: func(_ *nodeEnv, cfg *cloudstack.Config) { cfg.Zone = "zone-2" }},
	} {
		parallel(t, c.name, func(t *testing.T) {
			env := newNodeEnv(t, 5)
			var replacement atomic.Pointer[answer]
			clock, o := fakeClockOptions()
			cfg := env.Config(testAPIKey, testSecret)
			if c.config != nil {
				c.config(env, cfg)
			}
			p, err := New(cfg, o, replacing(env, &replacement), testenv.NoJitter)
			require.NoError(t, err)
			nodes := env.nodes(4)
			for i, n := range nodes {
				n.Labels = map[string]string{corev1.LabelTopologyZone: "zone-1", corev1.LabelInstanceTypeStable: "Small_Instance"}
				n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.1.1.%d", 21+i)}, {Type: corev1.NodeHostName, Address: n.Name}}
			}
			remove := func() {}
			if c.fault != nil {
				remove = env.Inject(*c.fault)
			}
			if c.answer != nil {
				replacement.Store(&c.answer)
			}
			k := startCluster(t, p, nodes...)
			fresh := uninitialised(5)[4]
			if c.name != "one VM is missing in lists, but is there by id" && c.name != "a page with fewer VMs than the count" {
				_, err = k.kube.CoreV1().Nodes().Create(t.Context(), fresh, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			for range 3 {
				k.rounds(1, 4)
				clock.Step(node.VMAge + time.Second)
			}
			for _, before := range nodes {
				n, err := k.node(before.Name)
				require.NoError(t, err, "deleted")
				assert.Equal(t, before.Spec, n.Spec)
				assert.Equal(t, before.Labels, n.Labels)
				assert.Equal(t, before.Status.Addresses, n.Status.Addresses)
			}
			if n, err := k.node("w5"); err == nil {
				assert.True(t, tainted(n, cloudproviderapi.TaintExternalCloudProvider))
				assert.Empty(t, n.Spec.ProviderID)
				assert.Empty(t, n.Labels)
			} else {
				_, err = k.kube.CoreV1().Nodes().Create(t.Context(), fresh, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			if c.event != "" {
				k.eventually("an Event", func() bool { return strings.Contains(k.event(string(node.ReasonDeletionRefused)), c.event) })
			}
			if c.config != nil {
				return // it stays wrong
			}
			replacement.Store(nil)
			remove()
			k.eventually("w5 is initialised", func() bool {
				clock.Step(time.Second)
				n, err := k.node("w5")
				if err == nil { // kubelets write now and then, which makes the framework look again
					n.Annotations = map[string]string{"heartbeat": clock.Now().String()}
					_, _ = k.kube.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
				}
				return err == nil && !tainted(n, cloudproviderapi.TaintExternalCloudProvider) && n.Spec.ProviderID != ""
			})
		})
	}
}
