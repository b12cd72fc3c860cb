"""The words of the tiny model: one token each there, with the space before them."""

from __future__ import annotations

_WORDS = """
    bamo baso bava baze beba bebo bebu bema bini binu bisu bofe bova bozu buka buro buso dabe
    dapo dare dazo dedi dedu dema dene desu dira doni dono doso dudi dupe dure febe fefo femo
    fese fifo fika fiki five fopi fozu fudu fufu fuki fupe fuzu gago gake gamo gara gede gego
    gemi gigo gila ginu gipe giva gofo gono gulo kaba kafe kana kasa kati kava kazi keve kezo
    kibe kipe kise kiva kobi kodu kolo kono kope kota kuda kuni kuze lapa lebi lema lera lere
    letu lipi liro lulo lumi mani masa mazu midi mipu modo nagi nani nemi nime nita niva nodo
    noni nopi numi numo nuni nuta page pagu palu pazo pegu peme pogo polo pona popa pope popi
    poze puna puro puvu rama rapo rare rebu redu reti roda rofi rove rufa rule runi ruru ruza
    sasu sate seni sibo sido sime siva sobe soko soku somi sudo sumi tate tede tedu tegi tegu
    temi tibi tidi tine tipi tofi toku tufu tuku tupa tupe tura tuse vadi vani vape veda vefe
    vera veti vezo vidu vila vuli vura vuri zafo zame zana zebi zedi zeko zime zode zopa zumu
    zusi zuve
"""

TINY_WORDS = tuple(_WORDS.split())
"""The tiny model's vocabulary of words, all that it ever says, and what prompts are made of."""
