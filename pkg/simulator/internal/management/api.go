// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"sort"

	"github.com/csccm/csccm/pkg/simulator/internal/catalogue"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

type apiView struct {
	Name     string         `json:"name"`
	Since    string         `json:"since,omitempty"`
	IsAsync  bool           `json:"isasync"`
	Params   []apiParamView `json:"params"`
	Response []apiFieldView `json:"response"`
}

type apiParamView struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Length   int    `json:"length"`
	Required bool   `json:"required"`
	Since    string `json:"since,omitempty"`
}

type apiFieldView struct {
	Name     string         `json:"name,omitempty"`
	Type     string         `json:"type,omitempty"`
	Response []apiFieldView `json:"response,omitempty"`
}

// listAPIs returns the commands that the caller's role allows, each with the parameters that the caller may use.
func listAPIs(c *wire.Call) (any, error) {
	role := c.Caller.Account.Role
	var out []*catalogue.API
	for i := range c.Server.Cat.APIs {
		a := &c.Server.Cat.APIs[i]
		if role.Allows(a) && c.St.Registered(a) && (!c.Has("name") || c.Str("name") == a.Name) {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, wire.Errf(wire.CodeInternal, wire.CSGeneric, "Api Discovery plugin was unable to find an api by that name or process any apis")
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	admin := c.Caller.RootAdmin()
	return wire.Whole("api", out, func(a *catalogue.API) apiView {
		v := apiView{Name: a.Name, Since: a.Since, IsAsync: a.Async, Params: []apiParamView{}, Response: shape(c.Server.Cat, a.Shape)}
		for j := range a.Params {
			p := &a.Params[j]
			if !p.Admin || admin {
				v.Params = append(v.Params, apiParamView{Name: p.Name, Type: p.Type, Length: p.MaxLength(), Required: p.Required, Since: p.Since})
			}
		}
		return v
	}), nil
}

// shape returns the fields of an answer, with nested objects expanded.
func shape(cat *catalogue.Catalogue, n int) []apiFieldView {
	out := make([]apiFieldView, 0, len(cat.Shapes[n]))
	for _, f := range cat.Shapes[n] {
		v := apiFieldView{Name: f.Name, Type: f.Type}
		if f.Shape != nil {
			v.Response = shape(cat, *f.Shape)
		}
		out = append(out, v)
	}
	return out
}

// capabilityAnswer is the answer of listCapabilities: one object without a count.
type capabilityAnswer struct {
	Capability struct {
		SecurityGroups     bool   `json:"securitygroupsenabled"`
		DynamicRoles       bool   `json:"dynamicrolesenabled"`
		Version            string `json:"cloudstackversion"`
		PublicTemplates    bool   `json:"userpublictemplateenabled"`
		SupportELB         string `json:"supportELB"`
		ProjectInvite      bool   `json:"projectinviterequired"`
		UserProjects       bool   `json:"allowusercreateprojects"`
		MinDisk            int    `json:"customdiskofferingminsize"`
		MaxDisk            int    `json:"customdiskofferingmaxsize"`
		RegionSecondary    bool   `json:"regionsecondaryenabled"`
		KVMSnapshot        bool   `json:"kvmsnapshotenabled"`
		ThrottleInterval   int    `json:"apilimitinterval,omitempty"`
		ThrottleMax        int    `json:"apilimitmax,omitempty"`
		ViewDestroyed      bool   `json:"allowuserviewdestroyedvm"`
		ExpungeRecover     bool   `json:"allowuserexpungerecovervm"`
		ExpungeVolume      bool   `json:"allowuserexpungerecovervolume"`
		ViewDomainAccounts bool   `json:"allowuserviewalldomainaccounts"`
		ForceStop          bool   `json:"allowuserforcestopvm"`
		Kubernetes         bool   `json:"kubernetesserviceenabled"`
		KubernetesExp      bool   `json:"kubernetesclusterexperimentalfeaturesenabled"`
		CustomHypervisor   string `json:"customhypervisordisplayname"`
		UIPageSize         int    `json:"defaultuipagesize"`
		StatsRetention     int    `json:"instancesstatsretentiontime"`
		StatsUserOnly      bool   `json:"instancesstatsuseronly"`
		DiskStats          bool   `json:"instancesdisksstatsretentionenabled"`
		DiskStatsRetention int    `json:"instancesdisksstatsretentiontime"`
		SharedFSCPU        int    `json:"sharedfsvmmincpucount"`
		SharedFSRAM        int    `json:"sharedfsvmminramsize"`
		Lease              bool   `json:"instanceleaseenabled"`
		DynamicScaling     bool   `json:"dynamicscalingenabled"`
		AdditionalConfig   bool   `json:"additionalconfigenabled"`
		ExtensionsPath     string `json:"extensionspath,omitempty"` // only for root admins
	} `json:"capability"`
}

func listCapabilities(c *wire.Call) (any, error) {
	var a capabilityAnswer
	v := &a.Capability
	set := c.St.Settings
	on := c.St.BoolSetting
	v.DynamicRoles, v.Version, v.PublicTemplates, v.SupportELB = true, c.St.Version, true, "false"
	v.UserProjects, v.MinDisk, v.MaxDisk, v.KVMSnapshot = on("allow.user.create.projects"), 1, 1024, true
	v.ViewDestroyed, v.ExpungeRecover, v.ExpungeVolume, v.ForceStop = set.UserViewDestroyed, set.UserExpungeRecover, true, true
	v.ViewDomainAccounts = on("allow.user.view.all.domain.accounts")
	v.Kubernetes, v.KubernetesExp = on("cloud.kubernetes.service.enabled"), on("cloud.kubernetes.cluster.experimental.features.enabled")
	v.CustomHypervisor, v.UIPageSize, v.StatsRetention = "Custom", 20, 720
	v.DiskStatsRetention, v.SharedFSCPU, v.SharedFSRAM, v.DynamicScaling = 720, 2, 1024, true
	if c.Caller.RootAdmin() {
		v.ExtensionsPath = "/usr/share/cloudstack-management/extensions"
	}
	if set.ThrottleMax > 0 {
		v.ThrottleMax, v.ThrottleInterval = set.ThrottleMax, int(set.ThrottleInterval().Seconds())
	}
	return a, nil
}
