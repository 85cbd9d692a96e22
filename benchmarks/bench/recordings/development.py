"""Which recordings of the packages are for developing: the others are for those who judge.

Names as the packages have them. Who chooses settings by the others has nothing left to check with.
"""

from __future__ import annotations

NAMES: dict[str, tuple[str, ...]] = {
    "en": tuple(
        """
        agent-alreadyon agent-incorrect agent-newlocation agent-user all-circuits-busy-now
        conf-extended conf-getchannel conf-getconfno conf-invalid conf-kicked conf-lockednow
        conf-noempty conf-now-muted conf-now-recording conf-now-unmuted conf-onlyone
        conf-unlockednow conf-userwilljoin conf-waitforleader confbridge-begin-glorious-a
        confbridge-begin-glorious-b confbridge-begin-glorious-c confbridge-locked
        confbridge-only-one confbridge-only-participant confbridge-removed
        confbridge-unlocked confbridge-unmuted demo-abouttotry demo-echodone demo-moreinfo
        dictate/enter_filename feature-not-avail-line followme/pls-hold-while-try
        followme/sorry followme/status number-not-answering pm-invalid-option
        priv-callpending priv-introsaved priv-recordintro queue-callswaiting
        queue-periodic-announce queue-thereare speed-dial-empty ss-noservice tt-monkeysintro
        tt-weasels vm-dialout vm-helpexit vm-invalid-password vm-mailboxfull vm-msgforwarded
        vm-newuser vm-nobox vm-nonumber vm-num-i-have vm-passchanged vm-rec-name
        vm-reenterpassword vm-savefolder vm-starmain vm-tempgreetactive vm-tempremoved
        vm-tmpexists
        """.split()
    ),
    "es": tuple(
        """
        agent-alreadyon agent-incorrect agent-newlocation agent-user conf-extended
        conf-getchannel conf-getconfno conf-invalid conf-kicked conf-lockednow conf-noempty
        conf-now-muted conf-now-recording conf-now-unmuted conf-onlyone conf-unlockednow
        conf-userwilljoin conf-waitforleader confbridge-begin-glorious-a
        confbridge-begin-glorious-b confbridge-begin-glorious-c confbridge-locked
        confbridge-only-one confbridge-only-participant confbridge-removed
        confbridge-rest-list-vol-in confbridge-unlocked confbridge-unmuted demo-abouttotry
        demo-echodone demo-moreinfo dictate/both_help dictate/enter_filename dir-pls-enter
        followme/pls-hold-while-try followme/sorry followme/status pbx-parkingfailed
        priv-callpending priv-introsaved priv-recordintro queue-periodic-announce
        queue-quantity1 queue-thereare ss-noservice tt-monkeysintro tt-weasels vm-dialout
        vm-forward-multiple vm-helpexit vm-invalid-password vm-mailboxfull vm-newuser
        vm-nobox vm-nonumber vm-num-i-have vm-passchanged vm-pls-try-again vm-rec-name
        vm-reenterpassword vm-savefolder vm-starmain vm-tempremoved vm-then-pound
        vm-tmpexists vm-tocancel vm-unknown-caller
        """.split()
    ),
}
