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
)

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

// Whatever CloudStack answers: no Node is deleted or tainted, none changes its labels or addresses, and a new one stays
// uninitialised. When the fault is over, the new Node is initialised.
func TestFaultsChangeNoNode(t *testing.T) {
	t.Parallel()
	timeout := func(url.Values, int, []byte) (int, []byte, error) { return 0, nil, context.DeadlineExceeded }
	for _, c := range []struct {
		name   string
		answer answer
	}{
		{"401", refuses(401, "unable to verify user credentials and/or request signature")},
		{"432", refuses(432, "The API [listVirtualMachines] does not exist or is not available for the account for user id [x]")},
		{"431, the project is gone", refuses(431, "Unable to find project by id")},
		{"429", refuses(429, "The given user has reached his/her account api limit, please retry after [20] ms.")},
		{"500", says(500, "Internal Server Error")},
		{"502 of a proxy", says(502, "<html><body>Bad Gateway</body></html>")},
		{"503", refuses(503, "the server is shutting down")},
		{"530", refuses(530, "Internal error executing command, please contact your system administrator")},
		{"a web page", says(200, "<html>Welcome</html>")},
		{"nothing", says(200, "")},
		{"half an answer", says(200, `{"listvirtualmachinesresponse":{"count":4,"virtualmachine":[{"id":"`)},
		{"no answer in time", timeout},
		{"an empty list", says(200, `{"listvirtualmachinesresponse":{}}`)},
		{"a count without VMs", says(200, `{"listvirtualmachinesresponse":{"count":5}}`)},
		{"a page with fewer VMs than the count", cutList(func(i int) bool { return i < 2 }, true)},
		{"a list without most VMs", cutList(func(i int) bool { return i == 0 }, false)},
		{"a list with another's VMs", says(200, `{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"00000000-0000-0000-0000-000000000099","name":"stranger","state":"Running","nic":[]}]}}`)},
		{"one VM is missing in lists, but is there by id", cutList(func(i int) bool { return i != 2 }, false)},
	} {
		parallel(t, c.name, func(t *testing.T) {
			env := newNodeEnv(t, 5)
			var replacement atomic.Pointer[answer]
			clock, o := fakeClockOptions()
			p, err := New(env.Config(testAPIKey, testSecret), o, replacing(env, &replacement), testenv.NoJitter)
			require.NoError(t, err)
			nodes := env.nodes(4)
			for i, n := range nodes {
				n.Labels = map[string]string{corev1.LabelTopologyZone: "zone-1", corev1.LabelInstanceTypeStable: "Small_Instance"}
				n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.1.1.%d", 21+i)}, {Type: corev1.NodeHostName, Address: n.Name}}
			}
			replacement.Store(&c.answer)
			k := startCluster(t, p, nodes...)
			fresh := uninitialised(5)[4]
			if c.name != "one VM is missing in lists, but is there by id" && c.name != "a page with fewer VMs than the count" {
				_, err = k.kube.CoreV1().Nodes().Create(t.Context(), fresh, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			for range 3 {
				k.rounds(1, 4)
				clock.Step(vmAge + time.Second)
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
			replacement.Store(nil)
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
