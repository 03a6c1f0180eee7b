// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/internal/must"
)

// CloudStack is a simulator in this process, served on loopback, so that tests can use its ledger and faults directly.
// (Simulator, in contrast, is the program cloudstack-sim.)
type CloudStack struct {
	*simulator.Simulator
	// URL is the URL of the API.
	URL string

	server *http.Server
	admin  string // the integration port's URL
}

// StartCloudStack serves a world; nil means the example world of the simulator.
func StartCloudStack(world *simulator.World) (*CloudStack, error) {
	if world == nil {
		world = simulator.ExampleWorld()
	}
	return StartCloudStackWith(simulator.Options{World: world})
}

// StartCloudStackWith serves a simulator with options, for example latencies.
func StartCloudStackWith(o simulator.Options) (*CloudStack, error) {
	return StartCloudStackAt(context.Background(), "127.0.0.1:0", o)
}

// StartCloudStackAt serves a simulator at an address, for clients that cannot reach this process' loopback.
func StartCloudStackAt(ctx context.Context, address string, o simulator.Options) (_ *CloudStack, err error) {
	defer must.Return(&err)
	sim := must.Get(simulator.New(o))
	l := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", address))
	mux := http.NewServeMux()
	mux.Handle("/client/api", sim.Handler())
	mux.Handle("/integration/", http.StripPrefix("/integration", sim.IntegrationHandler()))
	c := &CloudStack{
		Simulator: sim,
		URL:       "http://" + l.Addr().String() + "/client/api",
		admin:     "http://" + l.Addr().String() + "/integration/client/api",
		server:    &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { _ = c.server.Serve(l) }()
	return c, nil
}

// Stop stops the server and the simulator.
func (c *CloudStack) Stop() {
	_ = c.server.Close()
	c.Close()
}

// Config returns the cloud-config of a user of the world.
func (c *CloudStack) Config(user string) (*cloudstack.Config, error) {
	key, secret, ok := c.Keys(user)
	if !ok {
		return nil, fmt.Errorf("user %s has no keys", user)
	}
	config := cloudconfig.Default()
	config.APIURL, config.APIKey, config.SecretKey = c.URL, key, secret
	return &config, nil
}

// Client returns an API client of a user of the world.
func (c *CloudStack) Client(user string) (_ *cloudstack.Client, err error) {
	defer must.Return(&err)
	return cloudstack.NewClient(must.Get(c.Config(user)))
}

// Admin runs a command as the operator of the cloud, through the integration port and without credentials, and waits
// for its job. It returns the content of the answer or the result of the job.
func (c *CloudStack) Admin(
	ctx context.Context, command string, params map[string]string,
) (_ map[string]any, err error) {
	defer must.Return(&err)
	answer := must.Get(c.call(ctx, command, params))
	id, ok := answer["jobid"].(string)
	if !ok {
		return answer, nil
	}

	var result map[string]any
	err = wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		job, err := c.call(ctx, "queryAsyncJobResult", map[string]string{"jobid": id})
		if err == nil && job["jobstatus"] == 2.0 {
			err = fmt.Errorf("%s: the job failed: %v", command, job["jobresult"])
		}
		result, _ = job["jobresult"].(map[string]any)
		return job["jobstatus"] == 1.0, err
	})

	return result, err
}

func (c *CloudStack) call(ctx context.Context, command string, params map[string]string) (_ map[string]any, err error) {
	defer must.Return(&err)
	query := url.Values{"command": {command}, "response": {"json"}}
	for k, v := range params {
		query.Set(k, v)
	}

	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, c.admin+"?"+query.Encode(), nil))
	resp, err := http.DefaultClient.Do(req)
	must.OK(err)
	defer func() { _ = resp.Body.Close() }()
	var envelope map[string]map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&envelope); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", command, resp.Status, err)
	}

	for _, content := range envelope {
		if text, bad := content["errortext"]; bad {
			return nil, fmt.Errorf("%s: %v", command, text)
		}
		return content, nil
	}

	return nil, errors.New(command + ": the answer is empty")
}
