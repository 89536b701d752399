package hostname

import "strings"

// allOwned are the country domains under which every second label is a public suffix.
const allOwned = "ck er fk jm kh mm np pg"

// secondLabels are labels that form a public suffix with each of the country domains given, such as
// "co.uk": the names below have owners of their own. They are from the list of publicsuffix.org: the
// labels of up to three letters that it has in five country domains or more, and some longer ones.
// Other suffixes, such as "nhs.uk", count as the domain of one owner.
var secondLabels = map[string]string{
	"ac": "ae at bd be bw ci cn cr cy eg fj gn id il im in ir jp ke kr lk ls ma me ml mu mw mz " +
		"ni nz pa pk pr rs rw se sz th tj tz ug uk vn za zm zw",
	"ai":   "bd in jo kr vn",
	"art":  "br do dz ec ht ml sn",
	"asso": "ci dz fr gp ht km mc ml nc re",
	"biz":  "az bb cy et fj gh id in ki ls mv mw my ni nr pk pl pr ss tj tr tt vn zm",
	"co": "ae ag am ao at az bb bd bi bj bw bz ci cl cm cr dm gg gl gy hu id il im in io ir it " +
		"je jp ke kr lc ls ma me mg mu mw mz na ni nz om pn rs rw ss st sz th tj tm tt tz ug " +
		"uk us uz ve vi za zm zw",
	"com": "ac af ag ai al am ar au aw az ba bb bd bh bi bj bm bn bo br bs bt by bz ci cm cn co " +
		"cu cv cw cy dm do dz ec ee eg es et fj fm fr ge gh gi gl gn gp gr gt gu gy hk hn hr " +
		"ht im in io iq jo kg ki km kp kw ky kz la lb lc lk lr lv ly mg mk ml mo ms mt mu mv " +
		"mw mx my na nf ng ni nr om pa pe pf ph pk pl pr ps pt py qa re ro sa sb sc sd sg sh " +
		"sl sn so ss st sv sy tj tm tn to tr tt tw ua ug uy uz vc ve vi vn vu ws ye zm",
	"coop": "ar br ht in km mv mw py rw",
	"edu": "ac af al ao ar au az ba bb bd bh bi bj bm bn bo br bs bt bz ci cn co cu cv cw dm do " +
		"dz ec ee eg es et fj fm gd ge gh gi gl gn gp gr gt gu gy hk hn ht in io iq it jo kg " +
		"ki km kn kp kw ky kz la lb lc lk lr ls lv ly me mg mk ml mn mo ms mt mv mw mx my mz " +
		"ng ni nr om pa pe pf ph pk pl pn pr ps pt py qa rs sa sb sc sd sg sl sn so ss st sv " +
		"sy tj tm to tr tt tw ua ug uy vc ve vg vn vu ws ye za zm",
	"firm": "ht in nf ro ve",
	"go":   "ci cr id it jp ke kr th tj tz ug",
	"gob":  "ar bo cl cu do ec es gt hn mx ni pa pe pk sv ve",
	"gouv": "ci fr ht km ml sn",
	"gov": "ac ae af al ao ar as au az ba bb bd bf bh bm bn br bs bt bw by bz cd cl cm cn co cx " +
		"cy cz dm do dz ec ee eg et fj gd ge gh gi gn gr gu gy hk ie il in io iq ir it jo kg " +
		"ki km kn kp kw kz la lb lc lk lr ls lt lv ly ma me mg mk ml mn mo mr ms mu mv mw my " +
		"mz na ng nr om ph pk pl pn pr ps pt pw py qa rs rw sa sb sc sd sg sh sl so ss sx sy " +
		"tj tl tm tn to tr tt tw ua ug uk vc ve vn ws ye za zm zw",
	"id":  "au bd cv fj ir lv ly us vn",
	"in":  "ni rs th ua us",
	"ind": "br gt in kw tn",
	"info": "az bb bd bj bo ec eg et fj gu ht hu in ke ki la ls ml mv nf ni nr pl pr ro sd tn tr " +
		"tt tz ve vn zm",
	"int": "ar az bo ci cv in la lk mv mw ni pt tj ve vn",
	"me":  "eg in it ke kr so ss tz uk us",
	"med": "br ec ee ht ly om pa sa sd",
	"mil": "ac ae al ar az ba bd bo br by cl cn co cy do ec eg fj gh gt hn id in io iq jo kg km " +
		"kr kz lv mg mv my mz ng ni no nz pe ph pl py qa rw sh st sy tj tm to tr tt tw tz ug " +
		"uy vc ve ye za zm zw",
	"name": "az eg et fj hr mk mv my ng pr qa tj tr tt vn",
	"ne":   "jp ke kr tz ug us",
	"net": "ac ae af ag ai al am ar au az ba bb bd bh bj bm bn bo br bs bt bw bz ci cm cn co cu " +
		"cv cw cy dm do dz ec eg et fj fm ge gg gh gl gn gp gr gt gu gy hk hn ht id il im in " +
		"io iq ir je jo kg ki kn kw ky kz la lb lc lk lr ls lv ly ma me mk ml mo ms mt mu mv " +
		"mw mx my mz na nf ng ni nr nz om pa pe ph pk pl pn pr ps pt py qa rw sa sb sc sd sg " +
		"sh sl so ss st sy th tj tm tn to tr tt tw ua uk uy uz vc ve vi vn vu ws ye za zm",
	"nom": "ag co es fr io km mg nc ni pa pe pl ro tm ve za",
	"or":  "at bi ci cr id it jp ke kr mu th tz ug us",
	"org": "ac ae af ag ai al am ao ar au az ba bb bd bh bi bj bm bn bo br bs bt bw bz ci cn co " +
		"cu cv cw cy dm do dz ec ee eg es et fj fm ge gg gh gi gl gn gp gr gt gu gy hk hn ht " +
		"hu il im in io iq ir je jo kg ki km kn kp kw ky kz la lb lc lk lr ls lv ly ma me mg " +
		"mk ml mn mo ms mt mu mv mw mx my mz na ng ni nr nz om pa pe pf ph pk pl pn pr ps pt " +
		"py qa ro rs rw sa sb sc sd se sg sh sk sl sn so ss st sv sy sz tj tm tn to tr tt tw " +
		"ua ug uk uy uz vc ve vi vn vu ws ye za zm zw",
	"pro":   "az br cy ec fj ht in mv om pr tt vn",
	"sc":    "cn ke kr ls tz ug us",
	"sch":   "ae bd id ir jo lk ly ng qa sa ss zm",
	"store": "bb nf ro st ve",
	"tm":    "cy dz fr hu km mc no pl ro se za",
	"tv":    "bb bd bo br eg im in it jo sd tr tz",
	"web":   "bo do gu id lk nf ni pk tj tr ve za",
}

// isPublicSuffix reports whether names below label.top have owners of their own.
func isPublicSuffix(label, top string) bool {
	return len(top) == 2 && (strings.Contains(secondLabels[label], top) || strings.Contains(allOwned, top))
}
