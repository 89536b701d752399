// Package hostname compares hosts by name: their spelling, and who owns them.
package hostname

import (
	"net/netip"
	"strings"
)

// CutPort cuts the port off a host as it stands in requests and URLs: "example.com:80", "[::1]:80". An
// IPv6 address without brackets has no port.
func CutPort(host string) (name, port string, found bool) {
	last := strings.LastIndexByte(host, ':')
	if last < 0 {
		return host, "", false
	}
	if host[0] == '[' {
		found = host[last-1] == ']' && strings.IndexByte(host[last:], ']') < 0
	} else {
		found = strings.IndexByte(host, ':') == last
	}
	if !found {
		return host, "", false
	}
	return host[:last], host[last+1:], true
}

// CanonicalName returns the canonical spelling of a host without a port. A name is in lower case, without
// one trailing dot. An IPv6 address is written as package netip writes it, without brackets.
func CanonicalName(host string) string {
	if len(host) >= 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	if strings.IndexByte(host, ':') < 0 {
		return strings.ToLower(strings.TrimSuffix(host, "."))
	}
	text, _, _ := strings.Cut(host, "%") // netip would intern the zone
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return strings.ToLower(host)
	}
	return addr.String() + host[len(text):]
}

// Canonical returns the canonical spelling of a host that may have a port, without it.
func Canonical(host string) string {
	name, _, _ := CutPort(host)
	return CanonicalName(name)
}

// Domain returns what the hosts of one owner have in common: the last two labels, or three if two are a
// public suffix such as "co.uk"; the address of IPv4, and the first 48 bits of IPv6. Ports do not matter.
func Domain(host string) string {
	name, _, _ := CutPort(host)
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		if addr = addr.WithZone(""); addr.Is4() {
			return addr.String()
		}
		site, _ := addr.Prefix(48) // fails for no length up to 128
		return site.String()
	}
	labels := strings.Split(name, ".")
	n := len(labels)
	if n < 3 {
		return name
	}
	kept := 2
	label, top := labels[n-2], labels[n-1]
	if len(top) == 2 && (strings.Contains(secondLabels[label], top) || strings.Contains(allOwned, top)) {
		kept = 3 // names below a public suffix have owners of their own
	}
	return strings.Join(labels[n-kept:], ".")
}

// allOwned are the country domains under which every second label is a public suffix.
const allOwned = "ck er fk jm kh mm np pg"

// common are the country domains under which each of com, edu, gov, net and org is a public suffix.
const common = "ac af al ar au az ba bb bd bh bm bn br bs bt bz cn co dm do dz ec eg et fj ge gh gn " +
	"gr gu gy hk in io iq jo kg ki kw kz la lb lc lk lr lv ly mk ml mo ms mv mw my ng nr om ph " +
	"pk pl pr ps pt py qa sa sb sc sd sg sl so ss sy tj tm to tr tt tw ua vc ve vn ws ye zm "

// secondLabels are labels that form a public suffix with each of the country domains given, such as
// "co.uk". From the list of publicsuffix.org, they are the labels of up to three letters in five country
// domains or more, and some longer ones. Others, such as "nhs.uk", count as the domain of one owner.
var secondLabels = map[string]string{
	"ac": "ae at bd be bw ci cn cr cy eg fj gn id il im in ir jp ke kr lk ls ma me ml mu mw mz ni nz " +
		"pa pk pr rs rw se sz th tj tz ug uk vn za zm zw",
	"ai":   "bd in jo kr vn",
	"art":  "br do dz ec ht ml sn",
	"asso": "ci dz fr gp ht km mc ml nc re",
	"biz":  "az bb cy et fj gh id in ki ls mv mw my ni nr pk pl pr ss tj tr tt vn zm",
	"co": "ae ag am ao at az bb bd bi bj bw bz ci cl cm cr dm gg gl gy hu id il im in io ir it je jp " +
		"ke kr lc ls ma me mg mu mw mz na ni nz om pn rs rw ss st sz th tj tm tt tz ug uk us uz ve " +
		"vi za zm zw",
	"com": common + "ag ai am aw bi bj bo by ci cm cu cv cw cy ee es fm fr gi gl gp gt hn hr ht im " +
		"km kp ky mg mt mu mx na nf ni pa pe pf re ro sh sn st sv tn ug uy uz vi vu",
	"coop": "ar br ht in km mv mw py rw",
	"edu": common + "ao bi bj bo ci cu cv cw ee es fm gd gi gl gp gt hn ht it km kn kp ky ls me mg " +
		"mn mt mx mz ni pa pe pf pn rs sn st sv ug uy vg vu za",
	"firm": "ht in nf ro ve",
	"go":   "ci cr id it jp ke kr th tj tz ug",
	"gob":  "ar bo cl cu do ec es gt hn mx ni pa pe pk sv ve",
	"gouv": "ci fr ht km ml sn",
	"gov": common + "ae ao as bf bw by cd cl cm cx cy cz ee gd gi ie il ir it km kn kp ls lt ma me " +
		"mg mn mr mu mz na pn pw rs rw sh sx tl tn ug uk za zw",
	"id":  "au bd cv fj ir lv ly us vn",
	"in":  "ni rs th ua us",
	"ind": "br gt in kw tn",
	"info": "az bb bd bj bo ec eg et fj gu ht hu in ke ki la ls ml mv nf ni nr pl pr ro sd tn tr tt " +
		"tz ve vn zm",
	"int": "ar az bo ci cv in la lk mv mw ni pt tj ve vn",
	"me":  "eg in it ke kr so ss tz uk us",
	"med": "br ec ee ht ly om pa sa sd",
	"mil": "ac ae al ar az ba bd bo br by cl cn co cy do ec eg fj gh gt hn id in io iq jo kg km kr " +
		"kz lv mg mv my mz ng ni no nz pe ph pl py qa rw sh st sy tj tm to tr tt tw tz ug uy vc ve " +
		"ye za zm zw",
	"name": "az eg et fj hr mk mv my ng pr qa tj tr tt vn",
	"ne":   "jp ke kr tz ug us",
	"net": common + "ae ag ai am bj bo bw ci cm cu cv cw cy fm gg gl gp gt hn ht id il im ir je kn " +
		"ky ls ma me mt mu mx mz na nf ni nz pa pe pn rw sh st th tn uk uy uz vi vu za",
	"nom": "ag co es fr io km mg nc ni pa pe pl ro tm ve za",
	"or":  "at bi ci cr id it jp ke kr mu th tz ug us",
	"org": common + "ae ag ai am ao bi bj bo bw ci cu cv cw cy ee es fm gg gi gl gp gt hn ht hu il " +
		"im ir je km kn kp ky ls ma me mg mn mt mu mx mz na ni nz pa pe pf pn ro rs rw se sh sk sn " +
		"st sv sz tn ug uk uy uz vi vu za zw",
	"pro":   "az br cy ec fj ht in mv om pr tt vn",
	"sc":    "cn ke kr ls tz ug us",
	"sch":   "ae bd id ir jo lk ly ng qa sa ss zm",
	"store": "bb nf ro st ve",
	"tm":    "cy dz fr hu km mc no pl ro se za",
	"tv":    "bb bd bo br eg im in it jo sd tr tz",
	"web":   "bo do gu id lk nf ni pk tj tr ve za",
}
