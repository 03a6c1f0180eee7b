// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/ui/model"
)

// TestUI follows the page of csccm ui while a Service is made, while somebody deletes its rule in CloudStack, and while the
// controller repairs that. csccm changes nothing, and shows no key.
func TestUI(t *testing.T) {
	t.Parallel()
	e := newDirectEnv(t, 2)
	e.register(t, 1, 2, nil)
	e.leads(t, e.controller(t, "ccm-a"))
	e.initialised(t, 2)
	p := e.opens(t, "--cloud-config", e.file(t, "ui-config", string(e.config(t, "ccm-a").Render())))

	e.service(t, "web", 80)
	ip := e.address(t, "web")
	const service = "service/default/web"
	p.until(t, "the Service with its address and rule", func(s *model.Snapshot) bool {
		return p.leads(service, model.KindAddress, ip) && len(s.Plans) == 0 && p.health(service) == model.HealthOK && len(p.rules()) == 1
	})
	rule := p.rules()[0]
	e.admin(t, "deleteLoadBalancerRule", map[string]string{"id": strings.TrimPrefix(rule, "rule/")})
	p.until(t, "the drift", func(s *model.Snapshot) bool {
		return p.health(service) == model.HealthWarning && len(s.Plans) == 1 && len(p.rules()) == 0
	})
	services := e.Client.CoreV1().Services(metav1.NamespaceDefault)
	e.eventually(t, "the Service to be synced again", func(ctx context.Context) error {
		s, err := services.Get(ctx, "web", metav1.GetOptions{})
		if err == nil {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, annotations+"algorithm", "leastconn")
			_, err = services.Update(ctx, s, metav1.UpdateOptions{})
		}
		return err
	})
	p.until(t, "the repair", func(s *model.Snapshot) bool {
		return p.health(service) == model.HealthOK && len(s.Plans) == 0 && len(p.rules()) == 1 && p.rules()[0] != rule
	})
	for _, key := range []string{e.config(t, "ccm-a").APIKey, e.config(t, "ccm-a").SecretKey} {
		if strings.Contains(p.all.String(), key) {
			t.Error("the page has a key of CloudStack")
		}
	}
}

// shown is the page of a csccm ui that runs, as its events tell it.
type shown struct {
	events *bufio.Scanner
	all    strings.Builder
	now    model.Snapshot
}

// opens starts csccm ui and visits its page.
func (e *env) opens(t *testing.T, args ...string) *shown {
	t.Helper()
	ctx, kill := context.WithTimeout(context.WithoutCancel(t.Context()), commandLimit) // the test's own ends before ^C below
	cmd := e.command(ctx, append([]string{"ui", "--no-open", "--interval", "1s"}, args...)...)
	said := &output{}
	cmd.Stderr = said
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		kill()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer kill()
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("csccm ui ended with %v: %s", err, said)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	url := strings.TrimSpace(line)
	base, _, _ := strings.Cut(url, "?")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	get := func(url string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", req.URL.Path, resp.Status)
		}
		return resp
	}
	page := get(url)
	_, _ = io.Copy(io.Discard, page.Body)
	_ = page.Body.Close()
	stream := get(base + "api/events")
	t.Cleanup(func() { _ = stream.Body.Close() })
	p := &shown{events: bufio.NewScanner(stream.Body)}
	p.events.Buffer(nil, 16<<20)
	return p
}

// until applies events until the page shows what is wanted.
func (p *shown) until(t *testing.T, what string, holds func(*model.Snapshot) bool) {
	t.Helper()
	end := time.Now().Add(limit)
	kind := ""
	for p.events.Scan() {
		p.all.Write(p.events.Bytes())
		name, data, _ := strings.Cut(p.events.Text(), ": ")
		switch {
		case name == "event":
			kind = data
		case name == "data" && kind == "snapshot":
			p.now = model.Snapshot{}
			if err := json.Unmarshal([]byte(data), &p.now); err != nil {
				t.Fatal(err)
			}
		case name == "data":
			var patch model.Patch
			if err := json.Unmarshal([]byte(data), &patch); err != nil {
				t.Fatal(err)
			}
			p.now = p.now.Apply(patch)
		}
		if name == "data" && holds(&p.now) {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	text, _ := json.MarshalIndent(p.now, "", " ")
	t.Fatalf("the page never showed %s: %v\n%s", what, p.events.Err(), text)
}

func (p *shown) health(id string) model.Health {
	for i := range p.now.Objects {
		if p.now.Objects[i].ID == id {
			return p.now.Objects[i].Health
		}
	}
	return ""
}

// leads reports whether an object has a link to one of this kind and name.
func (p *shown) leads(from string, kind model.Kind, name string) bool {
	to := map[string]bool{}
	for i := range p.now.Objects {
		if o := &p.now.Objects[i]; o.Kind == kind && o.Name == name {
			to[o.ID] = true
		}
	}
	for _, l := range p.now.Links {
		if l.From == from && to[l.To] {
			return true
		}
	}
	return false
}

func (p *shown) rules() (ids []string) {
	for i := range p.now.Objects {
		if p.now.Objects[i].Kind == model.KindRule {
			ids = append(ids, p.now.Objects[i].ID)
		}
	}
	return ids
}
