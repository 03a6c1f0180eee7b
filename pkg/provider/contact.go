// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
)

const (
	contactFirstPause = time.Second
	contactLastPause  = time.Minute
)

// contact says in the log whether CloudStack can be used as configured, and what is lacking. It tries until
// it can; the controllers work, or fail, on their own meanwhile.
func (p *Provider) contact(ctx context.Context) {
	pause := contactFirstPause
	for {
		vms, err := p.tryContact(ctx)
		if err == nil {
			klog.InfoS("CloudStack can be used", "scope", vms.Scope())
			return
		}
		if ctx.Err() != nil {
			return
		}
		klog.ErrorS(err, "CloudStack cannot be used", "remedy", remedy(err), "retryIn", pause)
		select {
		case <-ctx.Done():
			return
		case <-p.options.Clock.After(pause):
		}
		pause = min(2*pause, contactLastPause)
	}
}

// outage reports when calls are answered again after some that were not: a log of failures alone does not show that
// they are over.
type outage struct {
	clock clock.PassiveClock
	over  func(after time.Duration)

	mu    sync.Mutex
	since time.Time // zero while calls are answered
}

// observe is the client's observer. An error that CloudStack sends is an answer too.
func (o *outage) observe(x cloudstack.Observation) {
	if !x.Silent && x.Code == 0 {
		return // the caller gave up, which says nothing
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case x.Silent && o.since.IsZero():
		o.since = o.clock.Now()
	case !x.Silent && !o.since.IsZero():
		o.over(o.clock.Since(o.since))
		o.since = time.Time{}
	}
}

func logOutage(after time.Duration) {
	klog.InfoS("CloudStack answers again", "after", after.Round(time.Second))
}

// tryContact makes the calls that the Nodes need as well; what it learns stays in the inventory.
func (p *Provider) tryContact(ctx context.Context) (*inventory.VMSnapshot, error) {
	vms, err := p.inventory.VMs(ctx, vmAge)
	if err != nil {
		return nil, err
	}
	return vms, p.checkZone(ctx)
}

// checkZone looks for the configured zone. A role that may not list zones goes without the check.
func (p *Provider) checkZone(ctx context.Context) error {
	if p.config.Zone == "" {
		return nil
	}
	zones, err := p.inventory.Zones(ctx)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		klog.InfoS("The role of the API key's user may not list zones: the zone is not checked", "zone", p.config.Zone)
		return nil
	}
	if err != nil {
		return err
	}
	var known []string
	for i := range zones {
		if strings.EqualFold(zones[i].Name, p.config.Zone) || strings.EqualFold(zones[i].ID, p.config.Zone) {
			return nil
		}
		known = append(known, strconv.Quote(zones[i].Name))
	}
	slices.Sort(known)
	text := "the API key's user sees no zone"
	if len(known) > 0 {
		text = "the zones are " + strings.Join(known, ", ")
	}
	return &settingError{fmt.Sprintf("zone %q not found: %s", p.config.Zone, text), "correct or remove zone in the cloud-config"}
}

// settingError says that a setting does not fit what CloudStack shows.
type settingError struct{ text, remedy string }

func (e *settingError) Error() string { return e.text }

// remedy says what an operator can do about a failed first contact.
func remedy(err error) string {
	if setting, ok := errors.AsType[*settingError](err); ok {
		return setting.remedy
	}
	if is[*inventory.ProjectError](err) {
		return "correct project-id in the cloud-config"
	}
	api, ok := errors.AsType[*cloudstack.Error](err)
	if !ok {
		return "see the error"
	}
	switch api.Kind {
	case cloudstack.KindAuth:
		return "check api-key and secret-key in the cloud-config, and that the user and its account are enabled"
	case cloudstack.KindNotPermitted:
		return "allow the command to the role of the API key's user, and check that the user belongs to the project"
	case cloudstack.KindTransient, cloudstack.KindThrottled:
		return "none needed if CloudStack is down or busy; else check api-url and the way there"
	default:
		return "check api-url and project-id in the cloud-config"
	}
}
