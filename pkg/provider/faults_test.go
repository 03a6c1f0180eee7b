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
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// answer changes what the server answers; nil leaves it. It may hold the request as long as it likes.
type answer func(r *http.Request, form url.Values, status int, body []byte) (int, []byte)

// front stands between the controller and the simulator and lies as told.
type front struct {
	*httptest.Server
	lie atomic.Pointer[answer]
}

func newFront(t *testing.T, target string) *front {
	t.Helper()
	f := &front{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		form, _ := url.ParseQuery(string(sent))
		req, err := http.NewRequestWithContext(r.Context(), r.Method, target, bytes.NewReader(sent))
		if err != nil {
			return
		}
		req.Header = r.Header.Clone()
		req.Header.Del("Accept-Encoding") // so that the answer can be read here
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		status := resp.StatusCode
		if lie := f.lie.Load(); lie != nil {
			status, body = (*lie)(r, form, status, body)
		}
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	t.Cleanup(f.Close)
	return f
}

// impatient waits not long for an answer while the front lies, and as long as it takes when it does not.
type impatient struct{ front *front }

func (i impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	if i.front.lie.Load() == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
	defer cancel()
	return http.DefaultTransport.RoundTrip(r.WithContext(ctx))
}

func says(status int, body string) answer {
	return func(*http.Request, url.Values, int, []byte) (int, []byte) { return status, []byte(body) }
}

func refuses(code int, text string) answer {
	return says(code, fmt.Sprintf(`{"listvirtualmachinesresponse":{"uuidList":[],"errorcode":%d,"cserrorcode":9999,"errortext":%q}}`, code, text))
}

// cutList keeps only some of the VMs of whole lists; the count stays what the server said, or goes with them.
func cutList(keep func(i int) bool, keepCount bool) answer {
	return func(_ *http.Request, form url.Values, status int, body []byte) (int, []byte) {
		if form.Get("command") != "listVirtualMachines" || form.Get("id") != "" {
			return status, body
		}
		var list struct {
			Response struct {
				Count int               `json:"count"`
				VMs   []json.RawMessage `json:"virtualmachine"`
			} `json:"listvirtualmachinesresponse"`
		}
		if json.Unmarshal(body, &list) != nil {
			return status, body
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
		if err != nil {
			return status, body
		}
		return status, out
	}
}

// Whatever CloudStack answers: no Node is deleted or tainted, none changes its labels or addresses, a new one
// is left as it is; and when the fault is over, work goes on by itself.
func TestFaultsChangeNoNode(t *testing.T) {
	t.Parallel()
	hang := func(r *http.Request, _ url.Values, _ int, _ []byte) (int, []byte) {
		<-r.Context().Done()
		return 200, nil
	}
	for _, c := range []struct {
		name string
		lie  answer
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
		{"no answer in time", hang},
		{"an empty list", says(200, `{"listvirtualmachinesresponse":{}}`)},
		{"a count without VMs", says(200, `{"listvirtualmachinesresponse":{"count":5}}`)},
		{"a page with fewer VMs than the count", cutList(func(i int) bool { return i < 2 }, true)},
		{"a list without most VMs", cutList(func(i int) bool { return i == 0 }, false)},
		{"a list with another's VMs", says(200, `{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"id":"00000000-0000-0000-0000-000000000099","name":"stranger","state":"Running","nic":[]}]}}`)},
		{"one VM is missing in lists, but is there by id", cutList(func(i int) bool { return i != 2 }, false)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSim(t, 5)
			f := newFront(t, s.url)
			cfg := s.config(testAPIKey, testSecret)
			cfg.APIURL = f.URL + "/client/api"
			options := []cloudstack.Option{cloudstack.WithJitter(func(time.Duration) time.Duration { return time.Millisecond })}
			if c.name == "no answer in time" {
				options = append(options, cloudstack.WithTransport(impatient{f}))
			}
			clock := clocktesting.NewFakeClock(time.Now())
			o := DefaultOptions()
			o.Clock = clock
			p, err := New(cfg, o, options...)
			require.NoError(t, err)
			t.Cleanup(p.client.CloseIdleConnections)
			nodes := s.nodes(4)
			for i, n := range nodes {
				n.Labels = map[string]string{corev1.LabelTopologyZone: "zone-1", corev1.LabelInstanceTypeStable: "Small_Instance"}
				n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.1.1.%d", 21+i)}, {Type: corev1.NodeHostName, Address: n.Name}}
			}
			f.lie.Store(&c.lie)
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
			f.lie.Store(nil)
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
