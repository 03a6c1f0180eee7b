// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"slices"

	"github.com/csccm/csccm/pkg/simulator/internal/settings"
	"github.com/csccm/csccm/pkg/simulator/internal/store"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

const templateArch = "x86_64"

// templateView is the API object template.
type templateView struct {
	ID              string          `json:"id"`
	Name            string          `json:"name"`
	DisplayText     string          `json:"displaytext"`
	Public          bool            `json:"ispublic"`
	Created         *wire.Timestamp `json:"created"`
	Ready           bool            `json:"isready"`
	PasswordEnabled bool            `json:"passwordenabled"`
	Format          string          `json:"format"`
	Featured        bool            `json:"isfeatured"`
	CrossZones      bool            `json:"crossZones"`
	OSTypeID        string          `json:"ostypeid"`
	OSTypeName      string          `json:"ostypename"`
	Account         string          `json:"account"`
	ZoneID          string          `json:"zoneid"`
	ZoneName        string          `json:"zonename"`
	Status          string          `json:"status,omitempty"`
	Size            int64           `json:"size"`
	PhysicalSize    int64           `json:"physicalsize"`
	TemplateType    string          `json:"templatetype"`
	Hypervisor      string          `json:"hypervisor"`
	Domain          string          `json:"domain"`
	DomainID        string          `json:"domainid"`
	DomainPath      string          `json:"domainpath"`
	Extractable     bool            `json:"isextractable"`
	SSHKeyEnabled   bool            `json:"sshkeyenabled"`
	DynScalable     bool            `json:"isdynamicallyscalable"`
	DirectDownload  bool            `json:"directdownload"`
	DeployAsIs      bool            `json:"deployasis"`
	RequiresHVM     bool            `json:"requireshvm"`
	ForCKS          bool            `json:"forcks"`
	Arch            string          `json:"arch"`
	URL             string          `json:"url,omitempty"`
	Bits            *int            `json:"bits,omitempty"`
	Checksum        *string         `json:"checksum,omitempty"`

	Details         map[string]string   `json:"details"`
	DownloadDetails []map[string]string `json:"downloaddetails"`
	Tags            []wire.TagView      `json:"tags"`
	HasAnnotations  bool                `json:"hasannotations"`
}

// templateFilters maps the valid values of templatefilter and isofilter to whether they include the built-in
// templates, which are public, featured and not owned by the caller.
var templateFilters = map[string]bool{
	"featured":         true,
	"self":             false,
	"selfexecutable":   false,
	"sharedexecutable": false,
	"executable":       true,
	"community":        false,
	"all":              true,
}

// templateFilter validates a filter and reports whether it includes the built-in templates.
func templateFilter(c *wire.Call, param string) (bool, error) {
	shows, ok := templateFilters[c.Str(param)]
	switch {
	case !ok:
		return false, c.Internal(wire.CSGeneric,
			"No enum constant com.cloud.template.VirtualMachineTemplate.TemplateFilter.%s", c.Str(param))
	case c.Str(param) == "all" && c.Caller.Account.Normal():
		return false, wire.Invalid("Filter all can be specified by admin only")
	}
	return shows, nil
}

// templateInZone is a template in one zone: lists have one item per template and zone.
type templateInZone struct {
	*store.Template
	zone *store.Zone
}

func listTemplates(c *wire.Call) (any, error) {
	shows, err := templateFilter(c, "templatefilter")
	if err != nil {
		return nil, err
	}

	if _, err := c.OwnerScope(c.ByID()); err != nil {
		return nil, err
	}

	var out []templateInZone
	for _, t := range slices.Backward(c.St.Templates.Rows) {
		if !t.Removed &&
			(shows || c.Given("id")) &&
			wire.Matches(c, "id", t) &&
			c.Is("name", t.Name) &&
			c.Like("keyword", t.Name) &&
			c.Flag("forcks", t.ForCKS) {
			for _, z := range c.St.Zones.Rows {
				if wire.Matches(c, "zoneid", z) {
					out = append(out, templateInZone{t, z})
				}
			}
		}
	}

	return wire.Page(c, "template", out, func(t templateInZone) templateView { return viewTemplate(c, t) })
}

func viewTemplate(c *wire.Call, t templateInZone) templateView {
	root := c.St.Root()
	v := templateView{
		ID:              t.UUID,
		Name:            t.Name,
		DisplayText:     t.Name,
		Public:          true,
		Created:         wire.Stamp(t.Created),
		Ready:           true,
		Format:          t.Format,
		Featured:        true,
		CrossZones:      true,
		OSTypeID:        t.GuestOSID,
		OSTypeName:      t.OSName,
		Account:         "system",
		ZoneID:          t.zone.UUID,
		ZoneName:        t.zone.Name,
		Size:            store.TemplateGiB * settings.Gib,
		PhysicalSize:    store.TemplateGiB * settings.Gib,
		TemplateType:    t.Typ,
		Hypervisor:      "Simulator",
		Domain:          root.Name,
		DomainID:        root.UUID,
		DomainPath:      root.Display(),
		Arch:            templateArch,
		Details:         map[string]string{},
		DownloadDetails: []map[string]string{},
		Tags:            []wire.TagView{},
		ForCKS:          t.ForCKS,
	}

	if c.Caller.RootAdmin() {
		v.Status = "Download Complete"
		v.URL, v.Bits, v.Checksum = "http://templates.example/"+t.UUID+".vhd", new(int), new(string)
		for _, role := range []string{"Image", "Primary"} {
			v.DownloadDetails = append(v.DownloadDetails, map[string]string{
				"datastore":       role,
				"datastoreId":     store.StableID("datastore", role),
				"datastoreRole":   role,
				"downloadPercent": "100",
				"downloadState":   "DOWNLOADED",
			})
		}
	}

	return v
}
